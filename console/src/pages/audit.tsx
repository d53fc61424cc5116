/** The audit: every change to the platform with its caller, page by page. */

import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { asProblem } from '../data/problem.ts'
import { Json } from '../ui/facts.tsx'
import { Empty, Failed } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status } from '../ui/status.tsx'
import { Time } from '../ui/time.tsx'

type Action = Data['AdminActions']['actions'][number]

export default function Audit() {
  const [actor, setActor] = useParam('actor')
  const [action, setAction] = useParam('action')
  const [target, setTarget] = useParam('target')
  const filter = {
    ...(actor === '' ? {} : { actor }),
    ...(action === '' ? {} : { action }),
    ...(target === '' ? {} : { target }),
  }
  const read = useInfiniteQuery({
    queryKey: ['audit', filter],
    queryFn: ({ pageParam }) => {
      const query = { ...filter, limit: '50', ...(pageParam === null ? {} : { cursor: pageParam }) }
      return take(api.GET('/api/v1/audit', { params: { query } }))
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
  })
  const actions = read.data?.pages.flatMap(({ actions }) => actions) ?? []
  const fields = [
    ['Actor', actor, setActor],
    ['Action', action, setAction],
    ['Target', target, setTarget],
  ] as const
  return (
    <Page title="Who did what" lead="Every change, done, refused or failed, is kept for a year.">
      <div className="filters">
        {fields.map(([label, value, set]) => (
          <label key={label}>
            {label}
            <input
              type="search"
              value={value}
              onChange={(event) => set(event.target.value)}
              {...(label === 'Actor' ? { 'data-filter': true } : {})}
            />
          </label>
        ))}
      </div>
      {read.error && <Failed problem={asProblem(read.error)} retry={() => void read.refetch()} />}
      {read.data && actions.length === 0 && <Empty title="Nothing like that was done" />}
      <ul className="records" aria-label="Actions, the newest first">
        {actions.map((one) => (
          <li key={one.id}>
            <ActionLine action={one} />
          </li>
        ))}
      </ul>
      {read.hasNextPage && (
        <div className="buttons">
          <button type="button" disabled={read.isFetching} onClick={() => void read.fetchNextPage()}>
            {read.isFetching ? 'Loading…' : 'Earlier ones'}
          </button>
        </div>
      )}
    </Page>
  )
}

const tones = { done: 'ok', refused: 'warn', failed: 'bad' } as const

function ActionLine({ action }: { action: Action }) {
  const { actor, outcome, reason, request_id, before, after, count, occurred_at } = action
  return (
    <>
      <div className="line">
        <Time at={occurred_at} />
        <strong>{action.action}</strong>
        <span className="wrap">{action.target}</span>
        <Status tone={tones[outcome]}>{reason === null ? outcome : `${outcome}: ${reason}`}</Status>
        {count > 1 && <span>{count} times</span>}
        <span className="dim wrap">
          by {actor.kind.replace('_', ' ')} {actor.id}
        </span>
        {request_id && <Link href={linkTo('/requests', request_id)}>request</Link>}
      </div>
      {(before !== null || after !== null) && <Json label="Before and after" value={{ before, after }} />}
    </>
  )
}
