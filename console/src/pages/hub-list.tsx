/** The common parts of the lists of notes and goals: filters in the address, and pages. */

import { useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useParam } from '../data/address.ts'
import type { Paged } from '../data/api.ts'
import { asProblem } from '../data/problem.ts'
import { FilterSelect } from '../ui/form.tsx'
import { Empty, Failed } from '../ui/loaded.tsx'

export const priorities = ['low', 'normal', 'high', 'urgent'] as const
export type Priority = (typeof priorities)[number]

interface HubFilter {
  status?: string
  priority?: Priority
  author?: string
}

interface HubListProps<Row> {
  label: string
  /** Key of the query. */
  name: string
  statuses: readonly string[]
  load: (query: HubFilter & { cursor?: string; limit: number }) => Promise<Paged<Row>>
  row: (row: Row) => ReactNode
  empty: ReactNode
}

const everyMs = 5_000

export function HubList<Row extends { id: number }>(props: HubListProps<Row>) {
  const { label, name, statuses, load, row, empty } = props
  const [status, setStatus] = useParam('status')
  const [priority, setPriority] = useParam('priority')
  const [author, setAuthor] = useParam('author')
  const filter: HubFilter = {
    ...(status === '' ? {} : { status }),
    ...(priority === '' ? {} : { priority: priority as Priority }),
    ...(author === '' ? {} : { author }),
  }
  const read = useInfiniteQuery({
    queryKey: [name, filter],
    queryFn: ({ pageParam }) =>
      load({ ...filter, limit: 50, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    refetchInterval: everyMs,
  })
  const rows = read.data?.pages.flatMap(({ rows }) => rows) ?? []
  return (
    <>
      <div className="filters">
        <FilterSelect label="Status" value={status} options={statuses} onChange={setStatus} />
        <FilterSelect label="Priority" value={priority} options={priorities} onChange={setPriority} />
        <label>
          Author
          <input
            type="search"
            data-filter
            value={author}
            onChange={(event) => setAuthor(event.target.value)}
          />
        </label>
      </div>
      {read.error && <Failed problem={asProblem(read.error)} retry={() => void read.refetch()} />}
      {read.data &&
        rows.length === 0 &&
        (Object.keys(filter).length > 0 ? <Empty title="Nothing matches the filter" /> : empty)}
      <ul className="records" aria-label={label}>
        {rows.map((one) => (
          <li key={one.id}>{row(one)}</li>
        ))}
      </ul>
      {read.hasNextPage && (
        <div className="buttons">
          <button type="button" disabled={read.isFetching} onClick={() => void read.fetchNextPage()}>
            Earlier ones
          </button>
        </div>
      )}
    </>
  )
}
