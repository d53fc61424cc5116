/** One dispatch: a lane for each of its agents, its events as they come, and its conclusion. */

import { Link } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Copyable } from '../ui/copyable.tsx'
import { Facts } from '../ui/facts.tsx'
import { Empty, Failed, Loaded } from '../ui/loaded.tsx'
import { Prose } from '../ui/markdown.tsx'
import { Page, Section } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { countsIn, DispatchStatus } from './dispatches.tsx'
import { FollowLink } from './follow-link.tsx'
import { EventList } from './run-events.tsx'
import { Lanes } from './run-lanes.tsx'
import { RunStatus } from './runs.tsx'
import { useRunEvents } from './use-run-events.ts'

type Dispatch = Data['Dispatch']
type Part = Dispatch['runs'][number]

const everyMs = 2_000

export default function DispatchPage() {
  const goalId = usePathId()
  const params = { path: { goalId } }
  const dispatch = useRead(
    ['dispatches', goalId],
    () => take(api.GET('/api/v1/dispatches/{goalId}', { params })),
    everyMs,
  )
  return (
    <Page title={`Dispatch ${goalId}`} actions={dispatch.data && <Cancel dispatch={dispatch.data} />}>
      <Loaded of={dispatch}>{(data) => <Whole dispatch={data} />}</Loaded>
    </Page>
  )
}

function Cancel({ dispatch: { goalId, status } }: { dispatch: Dispatch }) {
  const mayCancel = useMay('POST /api/v1/dispatches/:goalId/cancel')
  const params = { path: { goalId: String(goalId) } }
  const cancel = useChange(
    () => take(api.POST('/api/v1/dispatches/{goalId}/cancel', { params })),
    ['dispatches'],
    ['runs'],
    ['goals'],
  )
  if (!mayCancel || status !== 'running') return null
  return (
    <>
      <button
        type="button"
        className="danger"
        disabled={cancel.isPending}
        onClick={() => cancel.mutate(undefined)}
      >
        {cancel.isPending ? 'Canceling…' : 'Cancel the dispatch'}
      </button>
      {cancel.error && <Failed problem={cancel.error} />}
    </>
  )
}

const columns: readonly Column<Part>[] = [
  {
    name: 'Agent',
    cell: ({ agent, runId }) => <Link href={linkTo('/runs', runId)}>{agent}</Link>,
    by: ({ agent }) => agent,
  },
  { name: 'State', cell: ({ status }) => <RunStatus status={status} />, by: ({ status }) => status },
  {
    name: 'Fault',
    cell: ({ error }) =>
      error === null ? '–' : <span className="wrap">{`${error.code}: ${error.message}`}</span>,
    wide: true,
  },
]

function Whole({ dispatch }: { dispatch: Dispatch }) {
  const { goalId, runs: parts, result, status } = dispatch
  const runs = useRead(
    ['runs', 'dispatch', goalId],
    () => takePage(api.GET('/api/v1/runs', { params: { query: { goalId: String(goalId), limit: 100 } } })),
    everyMs,
  )
  const following = useRunEvents(`dispatches/${goalId}`)
  return (
    <>
      <About dispatch={dispatch} />
      <Section title="Conclusion">
        {result === null ? (
          <p className="dim">
            {status === 'running' ? 'It comes when all have answered.' : 'There is none.'}
          </p>
        ) : (
          <Prose>{result}</Prose>
        )}
      </Section>
      <Section title="Agents">
        <Table<Part>
          label="Agents"
          columns={columns}
          rows={parts}
          keyOf={({ runId }) => runId}
          empty={<Empty title="It was sent to nobody" />}
        />
      </Section>
      <Section title="Timeline">
        <Lanes runs={runs.data ? [...runs.data.rows].reverse() : []} events={following.events} />
      </Section>
      <EventList following={following} />
    </>
  )
}

function About({ dispatch }: { dispatch: Dispatch }) {
  const { goalId, status, counts, userId, sessionId, deadline } = dispatch
  const mayGoals = useMay('GET /api/v1/goals/:id')
  const goal = useRead(['goals', 'one', goalId], () =>
    take(api.GET('/api/v1/goals/{id}', { params: { path: { id: String(goalId) } } })),
  )
  return (
    <>
      {goal.data && <p className="prose">{goal.data.description || goal.data.title}</p>}
      <Facts
        of={[
          ['State', <DispatchStatus key="state" status={status} />],
          ['Runs', countsIn(counts)],
          [
            'Goal',
            mayGoals ? (
              <Link key="goal" href={linkTo('/goals', null, { goal: goalId })}>{`goal ${goalId}`}</Link>
            ) : (
              goalId
            ),
          ],
          ['User', userId],
          ['Session', <Copyable key="session" text={sessionId} />],
          ['Deadline', <Time key="deadline" at={deadline} />],
        ]}
      />
      <FollowLink id={goalId} />
    </>
  )
}
