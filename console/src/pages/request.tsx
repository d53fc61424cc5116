/** One id, traced: HTTP, the log, its readers, and the effects. */

import { type FormEvent, useId } from 'react'
import { Link, useLocation } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Json } from '../ui/facts.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { Time } from '../ui/time.tsx'
import { Came, Effect } from './request-effects.tsx'

type Followed = Data['FollowedRequest']

const kinds: Record<Followed['kind'], string> = {
  request: 'a request',
  operation: 'an operation of the vector gateway',
  run: 'a run',
  dispatch: 'a dispatch',
  delivery: 'a webhook delivery',
  event: 'an event',
}

const tones: Record<Followed['records'][number]['groups'][number]['state'], Tone> = {
  handled: 'ok',
  waiting: 'busy',
  dead_letter: 'bad',
}

export default function RequestPage() {
  const id = usePathId()
  return (
    <Page
      title="Follow a request"
      lead="Paste an X-Request-Id, an operation id, a run, the number of a dispatch, or of a delivery its target/sequence, webhook-id or idempotency key."
    >
      <Ask id={id} />
      {id !== '' && <Way key={id} id={id} />}
    </Page>
  )
}

function Ask({ id }: { id: string }) {
  const [, navigate] = useLocation()
  const field = useId()
  function go(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const asked = String(new FormData(event.currentTarget).get('id')).trim()
    if (asked !== '') navigate(linkTo('/requests', asked))
  }
  return (
    <form key={id} className="filters" onSubmit={go}>
      <label htmlFor={field}>
        Request id, or another one
        <input id={field} name="id" size={40} data-filter defaultValue={id} />
      </label>
      <button type="submit" className="primary">
        Follow
      </button>
    </form>
  )
}

function Way({ id }: { id: string }) {
  const followed = useRead(['requests', id], () =>
    take(api.GET('/api/v1/requests/{id}', { params: { path: { id } } })),
  )
  return (
    <Loaded of={followed}>
      {(data) => (
        <>
          <Searched followed={data} />
          {isNothing(data) ? (
            <Empty title="Nothing has this id">
              <p>Audit notes come a moment after a call, and the log keeps records for a time only.</p>
            </Empty>
          ) : (
            <Stations followed={data} />
          )}
          <button type="button" onClick={() => void followed.refetch()}>
            Look again
          </button>
        </>
      )}
    </Loaded>
  )
}

function isNothing({ calls, changes, records, runs, deliveries }: Followed): boolean {
  return calls.length + changes.length + records.length + runs.length + deliveries.length === 0
}

function Searched({ followed: { kind, id, request_id, searched } }: { followed: Followed }) {
  const { around, records, complete } = searched
  return (
    <>
      {kind !== 'request' && (
        <p>
          It is {kinds[kind]}
          {request_id === null ? (
            '; the request that began it is not known.'
          ) : (
            <>
              , begun by the request{' '}
              {request_id === id ? (
                request_id
              ) : (
                <Link className="wrap" href={linkTo('/requests', request_id)}>
                  {request_id}
                </Link>
              )}
              .
            </>
          )}
        </p>
      )}
      <p className={complete ? 'dim' : 'warn-text'} role="status">
        {around === null ? 'When it was is not known' : <Time at={around} />} · {count(records)} records read
        {!complete && ' · older records were not read: some may be missing'}
      </p>
    </>
  )
}

function Stations({ followed }: { followed: Followed }) {
  const { calls, changes, records, records_found } = followed
  return (
    <>
      {calls.length > 0 && (
        <Section title="Called">
          <ul className="records">
            {calls.map((call) => (
              <li key={`${call.occurred_at} ${call.operation}`} className="line">
                <Time at={call.occurred_at} />
                <strong>{call.operation}</strong>
                {call.collection && <span>{call.collection}</span>}
                {call.agent && <Link href={linkTo('/agents', call.agent)}>{call.agent}</Link>}
                <Status tone={(call.status_code ?? 500) < 400 ? 'ok' : 'bad'}>
                  {`${call.outcome} ${call.status_code ?? ''}`.trim()}
                </Status>
                {call.took_ms !== null && <span>{count(call.took_ms)} ms</span>}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {changes.length > 0 && (
        <Section title="Changed">
          <ul className="records">
            {changes.map(({ id, occurred_at, action, target, outcome, before, after }) => (
              <li key={id}>
                <div className="line">
                  <Time at={occurred_at} />
                  <strong>{action}</strong>
                  <span className="wrap">{target}</span>
                  <Status tone={outcome === 'done' ? 'ok' : 'bad'}>{outcome}</Status>
                </div>
                <Json label="Before and after" value={{ before, after }} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {records.length > 0 && (
        <Section title="In the log">
          <ul className="records">
            {records.map(({ topic, partition, offset, timestamp, key, groups }) => (
              <li key={`${topic} ${partition} ${offset}`} className="line">
                <Time at={timestamp} />
                <Link href={linkTo('/topics', topic, { partition, from: offset })}>
                  {topic} {partition}/{offset}
                </Link>
                <code className="wrap">{key ?? 'no key'}</code>
                {groups.map(({ group, state, reason }) => (
                  <span key={group} className="wrap">
                    {group} <Status tone={tones[state]}>{state.replace('_', ' ')}</Status>
                    {reason !== null && <span className="fault"> {reason}</span>}
                  </span>
                ))}
                <Effect topic={topic} recordKey={key} />
              </li>
            ))}
          </ul>
          {records_found > records.length && (
            <p className="dim">and {count(records_found - records.length)} later ones</p>
          )}
        </Section>
      )}
      <Came followed={followed} />
    </>
  )
}
