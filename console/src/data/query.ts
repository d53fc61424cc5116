/** Reads and changes of pages: kept while they are open, read again every few seconds, and again after a change. */

import {
  QueryClient,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { asProblem, type Problem } from './problem.ts'

const waitMsMax = 10_000

/** Refusals are final. "Too many at once", as when several pages are opened together, passes in a moment. */
function isWorthAgain(failures: number, error: unknown): boolean {
  const { status } = asProblem(error)
  if (status === 429) return failures < 5
  return failures < 1 && (status === 0 || status >= 500)
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      gcTime: 5 * 60_000,
      retry: isWorthAgain,
      retryDelay: (_failures, error) => Math.min((asProblem(error).retryAfter ?? 1) * 1_000, waitMsMax),
      refetchOnWindowFocus: true,
    },
  },
})

export type Read<T> = UseQueryResult<T, Problem>

/** `everyMs`: read again as long as the page is open and seen. */
export function useRead<T>(key: readonly unknown[], read: () => Promise<T>, everyMs?: number): Read<T> {
  return useQuery<T, Problem>({
    queryKey: key,
    queryFn: read,
    ...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
  })
}

/** A change; then everything that begins with one of the keys is read again, and after a 403 the permissions, too. */
export function useChange<A, T>(
  change: (args: A) => Promise<T>,
  ...changed: readonly (readonly unknown[])[]
) {
  const client = useQueryClient()
  return useMutation<T, Problem, A>({
    mutationFn: change,
    onSuccess: () => Promise.all(changed.map((queryKey) => client.invalidateQueries({ queryKey }))),
    onError: (problem) => {
      if (problem.status === 403) return client.invalidateQueries({ queryKey: ['me'] })
    },
  })
}
