/** The effects of a traced request: points, notes, runs that ended, deliveries that were answered. */

import { Link } from 'wouter'
import type { Data } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { Section } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { Time } from '../ui/time.tsx'
import { runTones } from './runs.tsx'

type Followed = Data['FollowedRequest']
type Attempt = Followed['deliveries'][number]['attempts'][number]

/** Where the thing is that a record made. */
export function Effect({ topic, recordKey }: { topic: string; recordKey: string | null }) {
  const [place = '', ...rest] = (recordKey ?? '').split('/')
  const id = rest.join('/')
  if (topic === 'vectors.commands' && id !== '') {
    return <Link href={linkTo('/search', null, { in: place, like: id })}>point</Link>
  }
  if (topic === 'hub.records' && place === 'note') return <Link href={linkTo('/notes', id)}>note {id}</Link>
  if (topic === 'hub.records' && place === 'goal') return <Link href="/goals">goal {id}</Link>
  if (topic === 'webhooks.deliveries' && place !== '') {
    return <Link href={linkTo('/webhooks', place)}>target</Link>
  }
  return null
}

export function Came({ followed: { runs, dispatch, deliveries } }: { followed: Followed }) {
  return (
    <>
      {(runs.length > 0 || dispatch !== null) && (
        <Section title="Runs">
          {dispatch && (
            <p>
              Of <Link href={linkTo('/dispatches', dispatch.goal_id)}>dispatch {dispatch.goal_id}</Link>,{' '}
              {dispatch.status}.
            </p>
          )}
          <ul className="records">
            {runs.map(({ run_id, agent, status, trigger, error, created_at }) => (
              <li key={run_id} className="line">
                <Time at={created_at} />
                <Link href={linkTo('/runs', run_id)}>{agent}</Link>
                <span>{trigger}</span>
                <Status tone={runTones[status as keyof typeof runTones] ?? 'idle'}>{status}</Status>
                {error !== null && <span className="fault">{error}</span>}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {deliveries.length > 0 && (
        <Section title="Delivered">
          <ul className="records">
            {deliveries.map(({ target, sequence, event, attempts }) => (
              <li key={`${target}/${sequence}`}>
                <div className="line">
                  <Link href={linkTo('/webhooks', target)}>
                    {target}/{sequence}
                  </Link>
                  {event !== null && <span>{event}</span>}
                  {attempts.length === 0 && <Status tone="busy">no attempt yet</Status>}
                </div>
                {attempts.map((attempt) => (
                  <AttemptLine key={`${attempt.occurred_at} ${attempt.attempt}`} attempt={attempt} />
                ))}
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  )
}

const attemptTones: Record<string, Tone> = { success: 'ok', retry: 'warn', dead_letter: 'bad' }

function AttemptLine({ attempt }: { attempt: Attempt }) {
  const { occurred_at, kind, status, fault, took_ms, attempt: number, next_attempt_at } = attempt
  return (
    <div className="line">
      <Time at={occurred_at} />
      <span>attempt {number ?? '–'}</span>
      <Status tone={attemptTones[kind] ?? 'idle'}>{kind.replace('_', ' ')}</Status>
      <span>{status ?? fault ?? ''}</span>
      {took_ms !== null && <span>{count(Math.round(took_ms))} ms</span>}
      {next_attempt_at !== null && (
        <span className="dim">
          next <Time at={next_attempt_at} />
        </span>
      )}
    </div>
  )
}
