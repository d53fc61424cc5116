/** One schedule: its message, its times, and what became of them. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { Copyable } from '../ui/copyable.tsx'
import { Facts } from '../ui/facts.tsx'
import { Empty, Failed, Loaded } from '../ui/loaded.tsx'
import { Prose } from '../ui/markdown.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago, Time } from '../ui/time.tsx'
import { type Schedule, ScheduleState, When } from './schedules.tsx'

type Fired = Data['ScheduledRun']

const everyMs = 3_000
const tones: Readonly<Record<string, Tone>> = {
  completed: 'ok',
  partial: 'warn',
  failed: 'bad',
  refused: 'bad',
  missed: 'warn',
  running: 'busy',
  input_required: 'warn',
}

export default function SchedulePage() {
  const id = usePathId()
  const params = { path: { id } }
  const schedule = useRead(
    ['schedules', id],
    () => take(api.GET('/api/v1/schedules/{id}', { params })),
    everyMs,
  )
  return (
    <Page title="Schedule" actions={schedule.data && <Actions schedule={schedule.data} />}>
      <Loaded of={schedule}>{(data) => <Whole schedule={data} />}</Loaded>
    </Page>
  )
}

function Actions({ schedule: { id, paused } }: { schedule: Schedule }) {
  const mayChange = useMay('PATCH /api/v1/schedules/:id')
  const mayDelete = useMay('DELETE /api/v1/schedules/:id')
  const [isDeleting, setDeleting] = useState(false)
  const change = useChange(
    (body: { paused: boolean }) =>
      take(api.PATCH('/api/v1/schedules/{id}', { params: { path: { id } }, body })),
    ['schedules'],
    ['state'],
  )
  return (
    <>
      {mayChange && (
        <button type="button" disabled={change.isPending} onClick={() => change.mutate({ paused: !paused })}>
          {paused ? 'Resume' : 'Pause'}
        </button>
      )}
      {mayDelete && (
        <button type="button" className="danger" onClick={() => setDeleting(true)}>
          Delete
        </button>
      )}
      {change.error && <Failed problem={change.error} />}
      {isDeleting && <DeleteDialog id={id} onClose={() => setDeleting(false)} />}
    </>
  )
}

function DeleteDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [, navigate] = useLocation()
  const remove = useChange(
    () => take(api.DELETE('/api/v1/schedules/{id}', { params: { path: { id } } })),
    ['schedules'],
    ['state'],
  )
  return (
    <Confirm
      title="Delete the schedule?"
      action="Delete it"
      busy={remove.isPending}
      problem={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: () => navigate('/schedules') })}
      onClose={onClose}
    >
      <p>It fires no more. Its runs stay.</p>
    </Confirm>
  )
}

function Whole({ schedule }: { schedule: Schedule }) {
  const { id, name, agent, message, session, missed, pausedReason, endsAt, nextAt, lastAt, failures, owner } =
    schedule
  return (
    <>
      <Prose>{message}</Prose>
      <Facts
        of={[
          ['Id', <Copyable key="id" text={id} />],
          ['Name', name ?? '–'],
          ['Agent', agent ?? 'all, as a dispatch'],
          ['State', <ScheduleState key="state" schedule={schedule} />],
          ...(pausedReason === null ? [] : [['Paused for', pausedReason] as const]),
          ['When', <When key="when" schedule={schedule} />],
          ['Next', <Time key="next" at={nextAt} />],
          ['Last', <Ago key="last" at={lastAt} />],
          ['Until', <Time key="until" at={endsAt} />],
          ['Session', session === 'new' ? 'a new one each time' : session],
          ['Missed times', missed === 'skip' ? 'are skipped' : 'get one run for all of them'],
          ['Failures in a row', failures],
          ['Owner', owner],
        ]}
      />
      <Section title="Its runs">
        <FiredTimes id={id} />
      </Section>
    </>
  )
}

const columns: readonly Column<Fired>[] = [
  { name: 'Planned', cell: ({ plannedAt }) => <Time at={plannedAt} />, by: ({ plannedAt }) => plannedAt },
  {
    name: 'State',
    cell: ({ status }) => <Status tone={tones[status] ?? 'idle'}>{status}</Status>,
    by: ({ status }) => status,
  },
  { name: 'Run', cell: (fired) => <Started fired={fired} /> },
  {
    name: 'Why',
    cell: ({ error }) => <span className="wrap">{error?.message ?? ''}</span>,
    wide: true,
  },
]

function Started({ fired: { runId, goalId } }: { fired: Fired }) {
  if (runId !== null) return <Link href={linkTo('/runs', runId)}>{runId.slice(0, 12)}…</Link>
  if (goalId !== null) return <Link href={linkTo('/dispatches', goalId)}>dispatch {goalId}</Link>
  return <>–</>
}

function FiredTimes({ id }: { id: string }) {
  const params = { path: { id }, query: { limit: 100 } }
  const fired = useRead(
    ['schedules', id, 'runs'],
    () => takePage(api.GET('/api/v1/schedules/{id}/runs', { params })),
    everyMs,
  )
  return (
    <Loaded of={fired}>
      {({ rows }) => (
        <Table<Fired>
          label="Runs of the schedule"
          columns={columns}
          rows={rows}
          keyOf={({ plannedAt }) => plannedAt}
          empty={<Empty title="No time of it has come yet" />}
        />
      )}
    </Loaded>
  )
}
