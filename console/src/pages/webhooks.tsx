/** The webhook targets as they are now. */

import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago, Time } from '../ui/time.tsx'
import { AttemptBars, type Bars, saidOf, useBars } from './attempt-bars.tsx'

export type Target = Data['WebhookTargets']['targets'][number]

const tones: Record<Target['state'], Tone> = {
  idle: 'ok',
  delivering: 'busy',
  retrying: 'warn',
  outage: 'bad',
  removed: 'idle',
  new: 'idle',
}

/** The API says `outage` for what people call down. */
const wordOf = (state: Target['state']) => (state === 'outage' ? 'down' : state)

export function TargetState({ state }: { state: Target['state'] }) {
  return <Status tone={tones[state]}>{wordOf(state)}</Status>
}

function columnsOf(bars: ReadonlyMap<string, Bars> | undefined): readonly Column<Target>[] {
  return [
    {
      name: 'Target',
      cell: ({ target }) => <Link href={linkTo('/webhooks', target)}>{target}</Link>,
      by: ({ target }) => target,
    },
    { name: 'State', cell: ({ state }) => <TargetState state={state} />, by: ({ state }) => wordOf(state) },
    { name: 'Queue', cell: ({ lag }) => count(lag), by: ({ lag }) => lag, numeric: true },
    { name: 'Breaker', cell: ({ breaker }) => breaker, by: ({ breaker }) => breaker, wide: true },
    {
      name: 'Oldest waits',
      cell: ({ head_age_s }) => (head_age_s === null ? '–' : duration(head_age_s)),
      by: ({ head_age_s }) => head_age_s,
      numeric: true,
      wide: true,
    },
    { name: 'Next attempt', cell: ({ next_attempt_at }) => <Time at={next_attempt_at} />, wide: true },
    {
      name: 'Last answer',
      cell: ({ last_status, last_fault }) => last_status ?? last_fault ?? '–',
      by: ({ last_status }) => last_status,
      wide: true,
    },
    {
      name: 'At',
      cell: ({ last_at }) => <Ago at={last_at} />,
      by: ({ last_at }) => last_at,
      wide: true,
    },
    {
      name: 'Last hour',
      cell: ({ target }) => <Hour of={bars?.get(target)} target={target} />,
      wide: true,
    },
  ]
}

function Hour({ of: bars, target }: { of: Bars | undefined; target: string }) {
  if (!bars) return <span className="dim">–</span>
  return (
    <AttemptBars of={bars} label={`${target} in the last hour: ${saidOf(bars)}`} width={120} height={20} />
  )
}

export function TargetTable({ targets, id }: { targets: readonly Target[]; id?: string }) {
  const bars = useBars()
  return (
    <Table<Target>
      label="Webhook targets"
      columns={columnsOf(bars)}
      rows={targets}
      keyOf={({ target }) => target}
      empty={
        <Empty title="No targets yet">
          <p>
            Name them in <code>targets.yaml</code> of the data directory; the file is taken up within two
            seconds.
          </p>
        </Empty>
      }
      {...(id === undefined ? { textOf: ({ target, state }) => `${target} ${state}` } : { id })}
    />
  )
}

export function Webhooks() {
  const targets = useRead(['targets'], () => take(api.GET('/api/v1/webhooks/targets')), 5_000)
  return (
    <Page
      title="Webhook targets"
      lead={
        targets.data && (
          <>
            {targets.data.couriers === 0 ? 'No courier runs' : `${targets.data.couriers} couriers run`}, as of{' '}
            <Ago at={targets.data.as_of} />
          </>
        )
      }
    >
      <Loaded of={targets}>{({ targets }) => <TargetTable targets={targets} />}</Loaded>
    </Page>
  )
}
