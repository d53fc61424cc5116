/** One webhook target: what waits for it, and its newest attempts. */

import { Link, useParams } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'
import { useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Facts } from '../ui/facts.tsx'
import { FilterSelect } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago, Time } from '../ui/time.tsx'
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
  const { name = '' } = useParams()
  const [kind, setKind] = useParam('kind')
  const targets = useRead(['targets'], () => take(api.GET('/api/v1/webhooks/targets')), 5_000)
  const params = { path: { name }, query: { limit: '200' } }
  const attempts = useRead(
    ['targets', name, 'attempts'],
    () => take(api.GET('/api/v1/webhooks/targets/{name}/attempts', { params })),
    5_000,
  )
  return (
    <Page title={name}>
      <Loaded of={targets}>
        {({ targets }) => {
          const target = targets.find((one) => one.target === name)
          return target ? <About target={target} /> : <Empty title="There is no such target" />
        }}
      </Loaded>
      <Section title="Newest attempts">
        <Loaded of={attempts}>
          {({ attempts }) => (
            <>
              <AttemptBars attempts={attempts} />
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
  const { state, lag, head_sequence, head_age_s, breaker, next_attempt_at, last_status, last_fault } = target
  return (
    <>
      {state === 'outage' && (
        <p className="notice warn" role="status">
          It does not answer: nothing is given up, and the oldest delivery alone is tried.
        </p>
      )}
      <Facts
        of={[
          ['State', <TargetState key="state" state={state} />],
          ['Queue', count(lag)],
          [
            'Oldest waiting',
            head_sequence === null
              ? 'none'
              : `sequence ${head_sequence}${head_age_s === null ? '' : `, for ${duration(head_age_s)}`}`,
          ],
          ['Breaker', breaker],
          ['Next attempt', <Time key="next" at={next_attempt_at} />],
          ['Last answer', `${last_status ?? last_fault ?? 'none yet'}`],
          ['Last attempt', <Ago key="last" at={target.last_at} />],
          ['Partition', target.partition ?? '–'],
        ]}
      />
      {mayList && (
        <p>
          <Link href="/dead-letters?topic=webhooks.deliveries">Dead letters of webhooks</Link>
        </p>
      )}
    </>
  )
}

const minutes = 60
const height = 32
const barWidth = 6

/** The attempts of the last hour, minute by minute. */
function AttemptBars({ attempts }: { attempts: readonly Attempt[] }) {
  const now = Date.now()
  const bars = Array.from({ length: minutes }, () => ({ success: 0, retry: 0, dead_letter: 0 }))
  for (const { kind, occurred_at } of attempts) {
    const age = Math.floor((now - Date.parse(occurred_at)) / 60_000)
    const bar = bars[minutes - 1 - age]
    if (bar && kind in bar) bar[kind as keyof typeof bar] += 1
  }
  const highest = Math.max(1, ...bars.map(({ success, retry, dead_letter }) => success + retry + dead_letter))
  const sum = (kind: 'success' | 'retry' | 'dead_letter') => bars.reduce((all, bar) => all + bar[kind], 0)
  const label = `Last hour: ${sum('success')} delivered, ${sum('retry')} to be retried, ${sum('dead_letter')} given up`
  return (
    <p>
      <svg
        className="bars"
        role="img"
        aria-label={label}
        viewBox={`0 0 ${minutes * barWidth} ${height}`}
        width={minutes * barWidth}
        height={height}
        style={{ maxWidth: '100%' }}
      >
        <title>{label}</title>
        {bars.map(({ success, retry, dead_letter }, at) => {
          const unit = height / highest
          const x = at * barWidth
          const width = barWidth - 1
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: the bars are minutes, always sixty
            <g key={at}>
              <rect x={x} width={width} y={height - success * unit} height={success * unit} />
              <rect
                className="retry"
                x={x}
                width={width}
                y={height - (success + retry) * unit}
                height={retry * unit}
              />
              <rect
                className="dead"
                x={x}
                width={width}
                y={height - (success + retry + dead_letter) * unit}
                height={dead_letter * unit}
              />
            </g>
          )
        })}
      </svg>
      <br />
      <small className="dim">{label}</small>
    </p>
  )
}
