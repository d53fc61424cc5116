/** Dispatches: messages to all agents at once, and what became of them. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Dialog } from '../ui/dialog.tsx'
import { FilterSelect, Form, TextField, type Values } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'

type Dispatched = Data['Dispatches'][number]

const statuses = ['running', 'completed', 'partial', 'failed', 'canceled'] as const
const tones: Record<Dispatched['status'], Tone> = {
  running: 'busy',
  completed: 'ok',
  partial: 'warn',
  failed: 'bad',
  canceled: 'idle',
}

export function DispatchStatus({ status }: { status: Dispatched['status'] }) {
  return <Status tone={tones[status]}>{status}</Status>
}

/** How many of the runs ended in which way. */
export function countsIn(counts: Record<string, number | undefined>): string {
  const said = Object.entries(counts).filter(([name, runs]) => name !== 'total' && (runs ?? 0) > 0)
  return said.map(([name, runs]) => `${runs} ${name}`).join(', ') || 'none'
}

const columns: readonly Column<Dispatched>[] = [
  {
    name: 'Dispatch',
    cell: ({ goalId, title }) => (
      <Link className="wrap" href={linkTo('/dispatches', goalId)}>
        {goalId}: {title}
      </Link>
    ),
    by: ({ goalId }) => goalId,
  },
  { name: 'State', cell: ({ status }) => <DispatchStatus status={status} />, by: ({ status }) => status },
  { name: 'Runs', cell: ({ counts }) => countsIn(counts), wide: true },
  {
    name: 'User',
    cell: ({ userId }) => <span className="wrap">{userId}</span>,
    by: ({ userId }) => userId,
    wide: true,
  },
  {
    name: 'Made',
    cell: ({ createdAt }) => <Ago at={createdAt} />,
    by: ({ createdAt }) => createdAt,
    wide: true,
  },
  { name: 'Ended', cell: ({ endedAt }) => (endedAt === null ? '–' : <Ago at={endedAt} />), wide: true },
]

export default function Dispatches() {
  const [status, setStatus] = useParam('status')
  const query = { limit: 100, ...(status === '' ? {} : { status: status as Dispatched['status'] }) }
  const dispatches = useRead(
    ['dispatches', query],
    () => takePage(api.GET('/api/v1/dispatches', { params: { query } })),
    3_000,
  )
  const mayStart = useMay('POST /api/v1/dispatches')
  const [isStarting, setStarting] = useState(false)
  const start = mayStart && (
    <button type="button" className="primary" onClick={() => setStarting(true)}>
      Send to all agents
    </button>
  )
  return (
    <Page
      title="Dispatches"
      lead="One message to every agent, as one goal. The newest 100 that you may see; an admin sees all."
      actions={start}
    >
      <Loaded of={dispatches}>
        {({ rows }) => (
          <Table<Dispatched>
            label="Dispatches"
            columns={columns}
            rows={rows}
            keyOf={({ goalId }) => String(goalId)}
            textOf={({ goalId, title, userId }) => `${goalId} ${title} ${userId}`}
            filters={<FilterSelect label="State" value={status} options={statuses} onChange={setStatus} />}
            empty={
              <Empty title="No dispatches here">
                <p>A message to all agents is a dispatch; its goal ends with its last run.</p>
              </Empty>
            }
          />
        )}
      </Loaded>
      {isStarting && <StartDialog onClose={() => setStarting(false)} />}
    </Page>
  )
}

function StartDialog({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation()
  const start = useChange(
    async ({ message = '', sessionId }: Values) => {
      const { goalId } = await take(
        api.POST('/api/v1/dispatches', {
          params: { header: { 'idempotency-key': crypto.randomUUID() } },
          body: {
            message,
            ...(sessionId === undefined ? {} : { sessionId }),
          },
        }),
      )
      navigate(linkTo('/dispatches', goalId))
    },
    ['dispatches'],
    ['runs'],
    ['goals'],
  )
  return (
    <Dialog title="Send a message to all agents" onClose={onClose}>
      <Form
        submit="Send"
        busy={start.isPending}
        problem={start.error}
        onCancel={onClose}
        onSubmit={(values) => start.mutate(values)}
      >
        <TextField
          label="Message"
          name="message"
          rows={4}
          required
          autoFocus
          hint="Its first line is the title of the goal. The orchestrator concludes from what all have said."
          problem={start.error}
        />
        <TextField
          label="Session"
          name="sessionId"
          hint="Empty: a new one. The agents know its earlier messages."
          problem={start.error}
        />
      </Form>
    </Dialog>
  )
}
