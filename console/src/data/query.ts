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

/** A change; then everything that begins with one of the keys is read again, as after a conflict; after a 403 the permissions. */
export function useChange<A, T>(
  change: (args: A) => Promise<T>,
  ...changed: readonly (readonly unknown[])[]
) {
  const client = useQueryClient()
  const readAgain = (keys: readonly (readonly unknown[])[]) =>
    Promise.all(keys.map((queryKey) => client.invalidateQueries({ queryKey })))
  return useMutation<T, Problem, A>({
    mutationFn: change,
    onSuccess: () => readAgain(changed),
    onError: ({ status }) => {
      if (status === 403) return readAgain([['me']])
      // Somebody else was first.
      if (status === 409) return readAgain(changed)
    },
  })
}
