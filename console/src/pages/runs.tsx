/** Runs: messages to agents, and what became of them. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take, takePage } from '../data/api.ts'
import { duration } from '../data/format.ts'
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

export type Run = Data['Run']

const statuses = ['queued', 'running', 'input_required', 'completed', 'failed', 'canceled'] as const
export const runTones: Record<Run['status'], Tone> = {
  queued: 'idle',
  running: 'busy',
  input_required: 'warn',
  completed: 'ok',
  failed: 'bad',
  canceled: 'idle',
}

export function RunStatus({ status }: { status: Run['status'] }) {
  return <Status tone={runTones[status]}>{status}</Status>
}

export function tookOf({ startedAt, endedAt }: Run): string {
  if (startedAt === null) return '–'
  const endMs = endedAt === null ? Date.now() : Date.parse(endedAt)
  return duration((endMs - Date.parse(startedAt)) / 1_000)
}

const columns: readonly Column<Run>[] = [
  {
    name: 'Run',
    cell: ({ runId }) => <Link href={linkTo('/runs', runId)}>{runId.slice(0, 12)}…</Link>,
    by: ({ runId }) => runId,
  },
  { name: 'Agent', cell: ({ appName }) => appName, by: ({ appName }) => appName },
  { name: 'State', cell: ({ status }) => <RunStatus status={status} />, by: ({ status }) => status },
  {
    name: 'Message',
    cell: ({ message }) => <span className="wrap">{message}</span>,
    by: ({ message }) => message ?? '',
    wide: true,
  },
  { name: 'Began as', cell: ({ trigger }) => trigger, by: ({ trigger }) => trigger, wide: true },
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
  { name: 'Took', cell: tookOf, numeric: true, wide: true },
  { name: 'Events', cell: ({ lastEventId }) => lastEventId, numeric: true, wide: true },
]

const filterNames = ['agent', 'userId', 'sessionId'] as const

export default function Runs() {
  const [status, setStatus] = useParam('status')
  const [agent, setAgent] = useParam('agent')
  const [userId, setUserId] = useParam('userId')
  const [sessionId, setSessionId] = useParam('sessionId')
  const values = { agent, userId, sessionId }
  const setters = { agent: setAgent, userId: setUserId, sessionId: setSessionId }
  const query = {
    limit: 100,
    ...(status === '' ? {} : { status: status as Run['status'] }),
    ...Object.fromEntries(Object.entries(values).filter(([, value]) => value !== '')),
  }
  const runs = useRead(['runs', query], () => takePage(api.GET('/api/v1/runs', { params: { query } })), 3_000)
  const mayStart = useMay('POST /api/v1/runs')
  const [isStarting, setStarting] = useState(false)
  const start = mayStart && (
    <button type="button" className="primary" onClick={() => setStarting(true)}>
      Send a message
    </button>
  )
  return (
    <Page title="Runs" lead="The newest 100 that you may see; an admin sees all." actions={start}>
      <Loaded of={runs}>
        {({ rows }) => (
          <Table<Run>
            label="Runs"
            columns={columns}
            rows={rows}
            keyOf={({ runId }) => runId}
            filters={
              <>
                <FilterSelect label="State" value={status} options={statuses} onChange={setStatus} />
                {filterNames.map((name) => (
                  <label key={name}>
                    {{ agent: 'Agent', userId: 'User', sessionId: 'Session' }[name]}
                    <input
                      type="search"
                      size={12}
                      value={values[name]}
                      onChange={(event) => setters[name](event.target.value)}
                      {...(name === 'agent' ? { 'data-filter': true } : {})}
                    />
                  </label>
                ))}
              </>
            }
            empty={
              <Empty title="No runs here">
                <p>A message to an agent is a run.</p>
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
    async ({ appName = '', text = '', sessionId }: Values) => {
      const { runId } = await take(
        api.POST('/api/v1/runs', {
          params: { header: { 'idempotency-key': crypto.randomUUID() } },
          body: {
            appName,
            newMessage: { role: 'user', parts: [{ text }] },
            ...(sessionId === undefined ? {} : { sessionId }),
          },
        }),
      )
      navigate(linkTo('/runs', runId))
    },
    ['runs'],
  )
  return (
    <Dialog title="Send a message to an agent" onClose={onClose}>
      <Form
        submit="Send"
        busy={start.isPending}
        problem={start.error}
        onCancel={onClose}
        onSubmit={(values) => start.mutate(values)}
      >
        <TextField
          label="Agent"
          name="appName"
          required
          autoFocus
          hint="Its codename, such as ATLAS."
          problem={start.error}
        />
        <TextField
          label="Message"
          name="text"
          rows={4}
          required
          hint="An agent that is named, as @pulse or PULSE, joins."
          problem={start.error}
        />
        <TextField
          label="Session"
          name="sessionId"
          hint="Empty: a new one. The agent knows its earlier messages."
          problem={start.error}
        />
      </Form>
    </Dialog>
  )
}
