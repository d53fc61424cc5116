/** Schedules: messages that go to agents by the clock. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, type Values } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export type Schedule = Data['Schedule']

const everyMs = 10_000

/** What it does next. */
export function ScheduleState({ schedule: { paused, nextAt } }: { schedule: Schedule }) {
  if (paused) return <Status tone="warn">paused</Status>
  return nextAt === null ? <Status tone="idle">over</Status> : <Status tone="ok">active</Status>
}

export function When({ schedule: { cron, timezone, at } }: { schedule: Schedule }) {
  if (cron === null) return <Time at={at} />
  return (
    <span className="wrap">
      <code>{cron}</code> <span className="dim">{timezone}</span>
    </span>
  )
}

const columns: readonly Column<Schedule>[] = [
  {
    name: 'Schedule',
    cell: ({ id, name }) => <Link href={linkTo('/schedules', id)}>{name ?? `${id.slice(0, 14)}…`}</Link>,
    by: ({ id, name }) => name ?? id,
  },
  { name: 'Agent', cell: ({ agent }) => agent ?? 'all', by: ({ agent }) => agent ?? '' },
  { name: 'State', cell: (schedule) => <ScheduleState schedule={schedule} /> },
  { name: 'When', cell: (schedule) => <When schedule={schedule} />, wide: true },
  { name: 'Next', cell: ({ nextAt }) => <Time at={nextAt} />, by: ({ nextAt }) => nextAt },
  {
    name: 'Message',
    cell: ({ message }) => <span className="wrap">{message}</span>,
    by: ({ message }) => message,
    wide: true,
  },
  {
    name: 'Failures',
    cell: ({ failures }) => failures,
    by: ({ failures }) => failures,
    numeric: true,
    wide: true,
  },
  {
    name: 'Owner',
    cell: ({ owner }) => <span className="wrap">{owner}</span>,
    by: ({ owner }) => owner,
    wide: true,
  },
]

export default function Schedules() {
  const query = { limit: 100 }
  const schedules = useRead(
    ['schedules', query],
    () => takePage(api.GET('/api/v1/schedules', { params: { query } })),
    everyMs,
  )
  const mayMake = useMay('POST /api/v1/schedules')
  const [isMaking, setMaking] = useState(false)
  const make = mayMake && (
    <button type="button" className="primary" onClick={() => setMaking(true)}>
      Make a schedule
    </button>
  )
  return (
    <Page title="Schedules" lead="The newest 100 that you may see; an admin sees all." actions={make}>
      <Loaded of={schedules}>
        {({ rows }) => (
          <Table<Schedule>
            label="Schedules"
            columns={columns}
            rows={rows}
            keyOf={({ id }) => id}
            textOf={({ id, name, agent, message, owner }) => `${id} ${name} ${agent} ${message} ${owner}`}
            empty={
              <Empty title="No schedules yet">
                <p>A schedule sends a message to an agent, or to all of them, by the clock.</p>
              </Empty>
            }
          />
        )}
      </Loaded>
      {isMaking && <MakeDialog onClose={() => setMaking(false)} />}
    </Page>
  )
}

function MakeDialog({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation()
  const make = useChange(
    async ({ agent, message = '', cron = '', timezone, session, missed, name }: Values) => {
      const { id } = await take(
        api.POST('/api/v1/schedules', {
          params: { header: { 'idempotency-key': crypto.randomUUID() } },
          body: {
            ...(agent === undefined ? { dispatch: true } : { agent }),
            message,
            cron,
            missed: missed as 'skip' | 'once',
            ...(timezone === undefined ? {} : { timezone }),
            ...(session === undefined ? {} : { session }),
            ...(name === undefined ? {} : { name }),
          },
        }),
      )
      navigate(linkTo('/schedules', id))
    },
    ['schedules'],
    ['state'],
  )
  const problem = make.error
  return (
    <Dialog title="Send a message by the clock" onClose={onClose}>
      <Form
        submit="Make it"
        busy={make.isPending}
        problem={problem}
        onCancel={onClose}
        onSubmit={(values) => make.mutate(values)}
      >
        <TextField
          label="Agent"
          name="agent"
          autoFocus
          hint="Its codename, such as ATLAS. Empty: all agents, as a dispatch."
          problem={problem}
        />
        <TextField label="Message" name="message" rows={4} required problem={problem} />
        <TextField
          label="Cron"
          name="cron"
          required
          hint="Minute, hour, day of the month, month, day of the week: 30 7 * * 1-5 is 7:30 on working days."
          problem={problem}
        />
        <TextField
          label="Time zone"
          name="timezone"
          hint="Such as Europe/Berlin. Empty: UTC."
          problem={problem}
        />
        <TextField label="Session" name="session" hint="Empty: a new one each time." problem={problem} />
        <SelectField
          label="Missed times"
          name="missed"
          options={[
            { value: 'skip', label: 'skip them' },
            { value: 'once', label: 'one run for all of them' },
          ]}
          initial="skip"
        />
        <TextField label="Name" name="name" hint="For people." problem={problem} />
      </Form>
    </Dialog>
  )
}
