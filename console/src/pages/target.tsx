/** One webhook target: its pending events, and its newest attempts. */

import { Link } from 'wouter'
import { useParam, usePathId } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Facts } from '../ui/facts.tsx'
import { FilterSelect } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago, Time } from '../ui/time.tsx'
import { AttemptBars, saidOf, useBars } from './attempt-bars.tsx'
import { FollowLink } from './follow-link.tsx'
import { TargetActions } from './target-actions.tsx'
import { type Target, TargetState } from './webhooks.tsx'

type Attempt = Data['WebhookAttempts']['attempts'][number]

const kinds = ['success', 'retry', 'dead_letter', 'state']
const tones: Record<string, Tone> = { success: 'ok', retry: 'warn', dead_letter: 'bad' }

const columns: readonly Column<Attempt>[] = [
  { name: 'At', cell: ({ occurred_at }) => <Time at={occurred_at} />, by: ({ occurred_at }) => occurred_at },
  {
    name: 'Outcome',
    cell: ({ kind }) => <Status tone={tones[kind] ?? 'idle'}>{kind.replace('_', ' ')}</Status>,
    by: ({ kind }) => kind,
  },
  {
    name: 'Sequence',
    cell: ({ sequence }) => sequence ?? '–',
    by: ({ sequence }) => sequence,
    numeric: true,
  },
  { name: 'Attempt', cell: ({ attempt }) => attempt ?? '–', by: ({ attempt }) => attempt, numeric: true },
  { name: 'Answer', cell: ({ status, fault }) => status ?? fault ?? '–', by: ({ status }) => status },
  {
    name: 'Took',
    cell: ({ took_ms }) => (took_ms === null ? '–' : `${count(Math.round(took_ms))} ms`),
    by: ({ took_ms }) => took_ms,
    numeric: true,
    wide: true,
  },
  { name: 'Breaker', cell: ({ breaker }) => breaker, wide: true },
  { name: 'Next', cell: ({ next_attempt_at }) => <Time at={next_attempt_at} />, wide: true },
]

export default function TargetPage() {
  const name = usePathId()
  const [kind, setKind] = useParam('kind')
  const shown = useRead(
    ['targets', name],
    () => take(api.GET('/api/v1/webhooks/targets/{name}', { params: { path: { name } } })),
    3_000,
  )
  const bars = useBars()?.get(name)
  const params = { path: { name }, query: { limit: '200' } }
  const attempts = useRead(
    ['targets', name, 'attempts'],
    () => take(api.GET('/api/v1/webhooks/targets/{name}/attempts', { params })),
    5_000,
  )
  return (
    <Page title={name} actions={shown.data && <TargetActions target={shown.data.target} />}>
      <Loaded of={shown}>
        {({ target, settings }) => (
          <>
            <About target={target} />
            <Head target={target} attempts={attempts.data?.attempts ?? []} />
            <Settings settings={settings} />
          </>
        )}
      </Loaded>
      <Section title="Newest attempts">
        <Loaded of={attempts}>
          {({ attempts }) => (
            <>
              {bars && (
                <p>
                  <AttemptBars of={bars} label={`Last hour: ${saidOf(bars)}`} width={360} height={32} />
                  <br />
                  <small className="dim">Last hour: {saidOf(bars)}</small>
                </p>
              )}
              <Table
                label="Newest attempts"
                columns={columns}
                rows={attempts.filter((one) => kind === '' || one.kind === kind)}
                keyOf={({ occurred_at, sequence, attempt, kind }) =>
                  `${occurred_at}/${sequence}/${attempt}/${kind}`
                }
                filters={<FilterSelect label="Outcome" value={kind} options={kinds} onChange={setKind} />}
                empty={<Empty title="No attempts in the last 7 days" />}
              />
            </>
          )}
        </Loaded>
      </Section>
    </Page>
  )
}

function About({ target }: { target: Target }) {
  const mayList = useMay('GET /api/v1/dead-letters')
  const { state, lag, breaker, last_status, last_fault } = target
  return (
    <>
      {state === 'outage' && (
        <p className="notice warn" role="status">
          It does not answer. While it is down nothing is given up, and only the oldest delivery is tried.
        </p>
      )}
      <Facts
        of={[
          ['State', <TargetState key="state" state={state} />],
          ['Queue', count(lag)],
          ['Breaker', breaker],
          ['Last answer', `${last_status ?? last_fault ?? 'none yet'}`],
          ['Last attempt', <Ago key="last" at={target.last_at} />],
          ['Partition', target.partition ?? '–'],
        ]}
      />
      {mayList && (
        <p>
          <Link href={linkTo('/dead-letters', null, { topic: 'webhooks.deliveries' })}>
            Dead letters of webhooks
          </Link>
        </p>
      )}
    </>
  )
}

/** The delivery that is being tried, and how it went so far: those behind it wait for it. */
function Head({ target, attempts }: { target: Target; attempts: readonly Attempt[] }) {
  const { head, head_age_s, next_attempt_at } = target
  const own = head
    ? attempts.filter(({ sequence, kind }) => sequence === head.sequence && kind !== 'state')
    : []
  return (
    <Section title="Head of the queue">
      {head === null ? (
        <p className="dim">Nothing waits.</p>
      ) : (
        <>
          <Facts
            of={[
              ['Sequence', head.sequence],
              ['Event', head.event],
              ['Agent', head.agent],
              [
                'Task',
                <span key="task" className="wrap">
                  {head.task_id}
                </span>,
              ],
              ['Waits for', head_age_s === null ? '–' : duration(head_age_s)],
              ['Attempts so far', count(Math.max(head.attempts, own.length))],
              ['Next attempt', <Time key="next" at={next_attempt_at} />],
            ]}
          />
          {own.length > 0 && (
            <ul className="records" aria-label="Its attempts, the newest first">
              {own.slice(0, 10).map((one) => (
                <li key={one.occurred_at} className="line">
                  <Time at={one.occurred_at} />
                  <span>attempt {one.attempt ?? '–'}</span>
                  <Status tone={tones[one.kind] ?? 'idle'}>{one.kind.replace('_', ' ')}</Status>
                  <span>{one.status ?? one.fault ?? ''}</span>
                </li>
              ))}
            </ul>
          )}
          <FollowLink id={`${target.target}/${head.sequence}`} />
        </>
      )}
    </Section>
  )
}

function Settings({ settings }: { settings: Data['WebhookTarget']['settings'] }) {
  return (
    <Section title="Settings">
      {settings === null ? (
        <p className="dim">The targets file does not name it, or cannot be read here.</p>
      ) : (
        <Facts
          of={[
            [
              'Address',
              <code key="url" className="wrap">
                {settings.url}
              </code>,
            ],
            ['Headers', settings.headers.join(', ') || 'none of its own'],
            ['Signed', settings.signed ? 'yes' : 'no'],
            ['Events', settings.events?.join(', ') ?? 'all'],
            ['Agents', settings.agents?.join(', ') ?? 'all'],
            ['Ordered by', settings.ordering],
            ['Retries', `${count(settings.retry)}, at first after ${count(settings.backoff_ms)} ms`],
            ['Then', settings.on_exhausted === 'hold' ? 'it is held' : 'it becomes a dead letter'],
            ['Held while it is down', duration(settings.hold_hours * 3_600)],
          ]}
        />
      )}
    </Section>
  )
}
