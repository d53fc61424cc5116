/** The points of a collection, page by page: by id, or by the time of their last update. */

import { useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { filterWhere } from '../../../packages/client/src/where.ts'
import { useFilters } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { asProblem } from '../data/problem.ts'
import { Empty, Failed } from '../ui/loaded.tsx'
import { Section } from '../ui/page.tsx'
import { PointEntry } from './point-entry.tsx'

type Asked = Data['PointList']

/** As the address has them. */
export const orders = [
  { value: '', name: 'by id', direction: undefined },
  { value: 'newest', name: 'the newest first', direction: 'desc' },
  { value: 'oldest', name: 'the oldest first', direction: 'asc' },
] as const

export function Points({ collection, children }: { collection: string; children: ReactNode }) {
  const [params] = useFilters()
  const filter = filterWhere(params.get('where') ?? '')
  const { direction, name } = orders.find(({ value }) => value === params.get('order')) ?? orders[0]
  const asked: Asked = {
    limit: Number(params.get('limit')) || 10,
    ...(direction && { order_by: { key: 'updated_at', direction } }),
    // The description writes the conditions of inner filters as any objects.
    ...(filter && { filter: filter as NonNullable<Asked['filter']> }),
  }
  const read = useInfiniteQuery({
    queryKey: ['search', collection, 'points', asked],
    queryFn: ({ pageParam: offset }) =>
      take(
        api.POST('/api/v1/collections/{collection}/points', {
          params: { path: { collection } },
          body: { ...asked, ...(offset === null ? {} : { offset }) },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next_offset }) => next_offset,
  })
  const listed = read.data?.pages.flatMap((page) => page.points) ?? []
  // One that is written meanwhile may come again, on a later page.
  const points = [...new Map(listed.map((point) => [point.id, point])).values()]
  return (
    <Section title={`Points of ${collection}, ${name}`}>
      {read.error && <Failed problem={asProblem(read.error)} retry={() => void read.refetch()} />}
      {read.data && points.length === 0 && <Empty title="No points" />}
      <ol className="records" aria-label="Points">
        {points.map((point) => (
          <li key={point.id}>
            <PointEntry point={point} collection={collection} />
          </li>
        ))}
      </ol>
      {read.hasNextPage && (
        <div className="buttons">
          <button type="button" disabled={read.isFetching} onClick={() => void read.fetchNextPage()}>
            More
          </button>
        </div>
      )}
      {children}
    </Section>
  )
}
