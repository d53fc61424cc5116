/** The platform at a glance: one line of verdict, then figures that lead further. */

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { api, type Data, take } from '../data/api.ts'
import { count, plural } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Status } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'
import { GroupTable } from './groups.tsx'
import { TargetTable } from './webhooks.tsx'

type State = Data['BrainState']

const everyMs = 5_000
/** Records that a group may be behind without a word. */
const lagMax = 1_000

export function Overview() {
  const state = useRead(['state'], () => take(api.GET('/api/v1/brain/state')), everyMs)
  const groups = useRead(['groups'], () => take(api.GET('/api/v1/log/groups')), everyMs)
  const targets = useRead(['targets'], () => take(api.GET('/api/v1/webhooks/targets')), everyMs)
  const letters = useRead(['dead-letters', {}], () => take(api.GET('/api/v1/dead-letters')), 3 * everyMs)
  const findings = [
    ...groupFindings(groups.data?.groups ?? []),
    ...targetFindings(targets.data?.targets ?? []),
    ...(letters.data && letters.data.count > 0 ? [plural(letters.data.count, 'dead letter')] : []),
  ]
  return (
    <Page title="Overview">
      <Loaded of={state}>
        {(data) => (
          <>
            <p className="verdict" role="status">
              {findings.length === 0 ? (
                <Status tone="ok">All is well</Status>
              ) : (
                <Status tone="warn">{findings.join(' · ')}</Status>
              )}{' '}
              <small className="dim">
                as of <Ago at={data.as_of} />
              </small>
            </p>
            <Asking runs={data.runs.input_required ?? 0} />
            <Figures state={data} groups={groups.data?.groups ?? []} letters={letters.data?.count} />
          </>
        )}
      </Loaded>
      <Section title="Consumer groups">
        <Loaded of={groups}>{({ groups }) => <GroupTable groups={groups} id="g-" />}</Loaded>
      </Section>
      <Section title="Webhook targets">
        <Loaded of={targets}>{({ targets }) => <TargetTable targets={targets} id="t-" />}</Loaded>
      </Section>
    </Page>
  )
}

/** For people to do, and no fault. */
function Asking({ runs }: { runs: number }) {
  if (runs === 0) return null
  return (
    <p role="status">
      <Link href={linkTo('/runs', null, { status: 'input_required' })}>
        {`${plural(runs, 'run waits', 'runs wait')} for an answer`}
      </Link>
    </p>
  )
}

type Groups = Data['ReaderGroups']['groups']

function groupFindings(groups: Groups): string[] {
  const stuck = groups.filter(({ state }) => state === 'stuck').length
  const away = groups.filter(({ state, lag }) => state === 'away' && lag > 0).length
  const behind = groups.filter(({ state, lag }) => state === 'reading' && lag > lagMax).length
  return [
    ...(stuck > 0 ? [`${plural(stuck, 'group')} stuck`] : []),
    ...(away > 0 ? [`${plural(away, 'group')} without a reader`] : []),
    ...(behind > 0 ? [`${plural(behind, 'group')} far behind`] : []),
  ]
}

function targetFindings(targets: Data['WebhookTargets']['targets']): string[] {
  const down = targets.filter(({ state }) => state === 'outage').length
  return down > 0 ? [`${plural(down, 'target')} down`] : []
}

function Figures({ state, groups, letters }: { state: State; groups: Groups; letters: number | undefined }) {
  const running = state.agents.filter(({ node }) => node?.status === 'up').length
  const points = Object.values(state.collections).reduce((sum, one) => sum + one, 0)
  const open = (state.goals.active ?? 0) + (state.goals.pending ?? 0)
  // Their lag is by design.
  const resting = groups.flatMap((one) => (one.state === 'asleep' || one.state === 'off' ? one.group : []))
  const lags = Object.entries(state.log.groups)
    .filter(([group]) => !resting.includes(group))
    .sort(([, a], [, b]) => b - a)
  const [worst] = lags
  return (
    <div className="tiles">
      <Tile to="/agents" name="Agents" value={state.agents.length}>
        {running > 0 ? `${count(running)} with a node` : 'who may use the platform'}
      </Tile>
      <Tile to="/runs" name="Runs running" value={state.runs.running ?? 0}>
        {`${count(state.runs.completed ?? 0)} completed, ${count(state.runs.failed ?? 0)} failed`}
      </Tile>
      <Tile to="/groups" name="Worst lag" value={worst?.[1] ?? 0}>
        {worst?.[1] ? worst[0] : plural(lags.length, 'group')}
      </Tile>
      <Tile to="/dead-letters" name="Dead letters" value={letters}>
        what the workers gave up on
      </Tile>
      <Tile to="/webhooks" name="Webhook targets" value={Object.keys(state.webhooks).length}>
        {plural(
          Object.values(state.webhooks).reduce((sum, { lag }) => sum + lag, 0),
          'delivery waiting',
          'deliveries waiting',
        )}
      </Tile>
      <Tile to="/search" name="Points" value={points}>
        {plural(Object.keys(state.collections).length, 'collection')}
      </Tile>
      <Tile to="/notes" name="Notes" value={state.notes}>
        of people and agents
      </Tile>
      <Tile to="/goals" name="Open goals" value={open}>
        {`${count(state.goals.completed ?? 0)} completed`}
      </Tile>
    </div>
  )
}

function Tile({
  to,
  name,
  value,
  children,
}: {
  to: string
  name: string
  value: number | undefined
  children: ReactNode
}) {
  return (
    <Link href={to}>
      {name}
      <b>{value === undefined ? '–' : count(value)}</b>
      <small className="dim">{children}</small>
    </Link>
  )
}
