/** What pages read and change: kept while they are open, read again every few seconds, and again after a change. */

import {
  QueryClient,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { asProblem, type Problem } from './problem.ts'

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      gcTime: 5 * 60_000,
      // What is refused stays refused; what may pass by itself is tried once more.
      retry: (failures, error) => {
        const { status } = asProblem(error)
        return failures < 1 && (status === 0 || status >= 500)
      },
      retryDelay: 1_000,
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

/** A change; when it is done, whatever begins with one of the keys is read again, and so is who may do what after a 403. */
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
