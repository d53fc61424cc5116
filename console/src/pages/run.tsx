/** One run with all that joined it: a lane for each, its events as they come, and the button that cancels it. */

import { Link } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo, pathPart } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Copyable } from '../ui/copyable.tsx'
import { Facts } from '../ui/facts.tsx'
import { Failed, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Time } from '../ui/time.tsx'
import { FollowLink } from './follow-link.tsx'
import { EventList } from './run-events.tsx'
import { Lanes } from './run-lanes.tsx'
import { Questions } from './run-questions.tsx'
import { type Run, RunStatus, tookOf } from './runs.tsx'
import { useRunEvents } from './use-run-events.ts'

const everyMs = 2_000

export default function RunPage() {
  const runId = usePathId()
  const params = { path: { runId } }
  const run = useRead(['runs', runId], () => take(api.GET('/api/v1/runs/{runId}', { params })), everyMs)
  return (
    <Page
      title={run.data ? `Run of ${run.data.appName}` : 'Run'}
      actions={run.data && <Cancel run={run.data} />}
    >
      <Loaded of={run}>{(data) => <Whole run={data} />}</Loaded>
    </Page>
  )
}

function Cancel({ run: { runId, endedAt, cancelRequestedAt } }: { run: Run }) {
  const mayCancel = useMay('POST /api/v1/runs/:runId/cancel')
  const cancel = useChange(
    () => take(api.POST('/api/v1/runs/{runId}/cancel', { params: { path: { runId } } })),
    ['runs'],
  )
  if (!mayCancel || endedAt !== null) return null
  const isAsked = cancelRequestedAt !== null || cancel.isPending
  return (
    <>
      <button type="button" className="danger" disabled={isAsked} onClick={() => cancel.mutate(undefined)}>
        {isAsked ? 'Canceling…' : 'Cancel the run'}
      </button>
      {cancel.error && <Failed problem={cancel.error} />}
    </>
  )
}

function Whole({ run }: { run: Run }) {
  const { runId, rootRunId } = run
  const tree = useRead(
    ['runs', 'tree', rootRunId],
    () => takePage(api.GET('/api/v1/runs', { params: { query: { rootRunId, limit: 100 } } })),
    everyMs,
  )
  const following = useRunEvents(`runs/${pathPart(runId)}`)
  const runs = tree.data ? [...tree.data.rows].reverse() : [run]
  return (
    <>
      <About run={run} />
      {run.message && (
        <Section title="Message">
          <p className="prose">{run.message}</p>
        </Section>
      )}
      <Questions runs={runs} />
      <Section title="Timeline">
        <Lanes runs={runs} events={following.events} />
      </Section>
      <EventList following={following} />
    </>
  )
}

function About({ run }: { run: Run }) {
  const { runId, status, error, userId, sessionId, parentRunId, joined, skipped, goalId, createdAt } = run
  const mayDispatches = useMay('GET /api/v1/dispatches/:goalId')
  const facts: [string, Parameters<typeof Facts>[0]['of'][number][1]][] = [
    ['State', <RunStatus key="state" status={status} />],
    ['Run', <Copyable key="run" text={runId} />],
    ['User', userId],
    ['Session', <Copyable key="session" text={sessionId} />],
    ['Made', <Time key="made" at={createdAt} />],
    ['Took', tookOf(run)],
  ]
  if (error) facts.push(['Fault', `${error.code}: ${error.message}`])
  if (parentRunId) facts.push(['Named by', <RunLink key="parent" runId={parentRunId} />])
  if (goalId !== null) {
    facts.push([
      'Dispatch',
      mayDispatches ? (
        <Link key="dispatch" href={linkTo('/dispatches', goalId)}>{`dispatch ${goalId}`}</Link>
      ) : (
        `dispatch ${goalId}`
      ),
    ])
  }
  if (joined.length > 0) facts.push(['Joined', <Joined key="joined" joined={joined} />])
  if (skipped.length > 0) {
    facts.push(['Did not join', skipped.map(({ agent, reason }) => `${agent} (${reason})`).join(', ')])
  }
  return (
    <>
      <Facts of={facts} />
      <FollowLink id={runId} />
    </>
  )
}

function RunLink({ runId, children = runId }: { runId: string; children?: string }) {
  return <Link href={linkTo('/runs', runId)}>{children}</Link>
}

function Joined({ joined }: { joined: Data['Run']['joined'] }) {
  return joined.map(({ agent, runId }, at) => (
    <span key={runId}>
      {at > 0 && ', '}
      <RunLink runId={runId}>{agent}</RunLink>
    </span>
  ))
}
