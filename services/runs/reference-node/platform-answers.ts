/** Answers about the platform itself: its health and lag, who may do what, and what it calls. Faults come first. */

import { plural } from '#lib/plural.ts'
import type { NodeState } from '../state/node-rows.ts'
import type { AgentFacts, GroupLag, TargetFacts } from './facts.ts'
import { briefly, bullets, counted, link, listed, pagePath, quoted } from './markdown.ts'
import { failedHandshakes } from './memory.ts'
import { type Answer, type Asked, usual } from './roster.ts'

/** Health, dead letters and lag: faults come first. */
export async function pulse({ memory, facts, read, search }: Asked): Promise<Answer> {
  const [health, lag, letters, targets, nodes, found] = await Promise.all([
    read('The health of the engines', () => memory.health()),
    read('The lag of the reader groups', () => facts.lag()),
    read('The number of dead letters', () => facts.deadLetters()),
    read('The webhook targets', () => facts.targets()),
    read('The nodes', () => facts.nodes()),
    search(usual, 2),
  ])
  const engines = Object.entries(health?.components ?? {}).filter(([name]) => name in engineNames)
  const [failing, answering] = [true, false].map((isFailing) =>
    engines.filter(([, { status }]) => (status === 'fail') === isFailing),
  ) as [typeof engines, typeof engines]
  const faults = [
    ...failing.map(([name]) => `The ${engineNames[name]} does not answer.`),
    ...(lag ?? []).flatMap(groupFault),
    ...(nodes ?? []).filter(isAway).map(nodeLine),
    ...(targets ?? []).filter(isDown).map((target) => targetLine(target)),
    ...(letters && letters.count > 0 ? [lettersLine(letters)] : []),
  ]
  const isSure = health && lag && letters && targets && nodes
  const well = isSure ? '**All is well.**' : '**Nothing is wrong in what could be read.**'
  const times = answering.map(([name, { latency_ms: ms }]) => `${engineNames[name]} (${tenths(ms)} ms)`)
  return {
    paragraphs: [
      faults.length > 0 ? `**${plural(faults.length, 'thing')} not well:** ${faults[0]}` : well,
      faults.length > 1 ? `Also not well:\n\n${bullets(faults.slice(1))}` : '',
      times.length > 0 ? `These answer: ${listed(times)}.` : '',
      lag ? lagOf(lag) : '',
      ...briefly(found),
    ],
    found: found ?? [],
  }
}

function tenths(ms: number | null): number {
  return Math.round((ms ?? 0) * 10) / 10
}

function lettersLine({ count, atMost }: { count: number; atMost: boolean }): string {
  return `${atMost ? 'Up to ' : ''}[${plural(count, 'dead letter')}](${pagePath('dead-letters')}), to be replayed or discarded.`
}

const engineNames: Readonly<Record<string, string>> = {
  vector_engine: 'vector engine',
  relational_engine: 'database',
  event_log: 'event log',
}

/** Sleeps until the mirror is searched: having no members is no fault. */
const sleeper = 'relational-writer'

function groupFault({ group, lag, members, stuck }: GroupLag): string[] {
  const name = link(group, pagePath('groups', group))
  if (stuck.length > 0) return [`${name} cannot get through ${plural(stuck.length, 'record')}.`]
  return lag > 0 && members === 0 && group !== sleeper
    ? [`${name} is not running, and ${plural(lag, 'record')} behind.`]
    : []
}

const groupsShownMax = 8

function lagOf(groups: readonly GroupLag[]): string {
  const behind = groups.filter(({ lag, group, members }) => lag > 0 && (members > 0 || group !== sleeper))
  if (behind.length === 0) return `All ${plural(groups.length, 'reader group')} have read everything.`
  const shown = behind.sort((a, b) => b.lag - a.lag).slice(0, groupsShownMax)
  const lines = shown.map(
    ({ group, topic, lag }) =>
      `${link(group, pagePath('groups', group))}: ${plural(lag, 'record')} of ${quoted(topic)}`,
  )
  const verb = behind.length === 1 ? 'has' : 'have'
  return `${behind.length} of ${plural(groups.length, 'reader group')} ${verb} records to read:\n\n${bullets(lines)}`
}

const dayMs = 86_400_000

/** Who may do what, the user of the run too, and who failed to prove who they are. */
export async function cipher({ userId, memory, facts, signal, read, search }: Asked): Promise<Answer> {
  const [agents, person, failed, found] = await Promise.all([
    read('The agents', () => facts.agents()),
    userId.startsWith('person_')
      ? read('Your role', async () => (await facts.accessOf(userId)) ?? null)
      : undefined,
    read('The failed handshakes', () => failedHandshakes(memory, Date.now() - dayMs, signal)),
    search(usual, 2),
  ])
  return {
    paragraphs: [
      failed ? refusalsOf(failed.refused.length, failed.strangers) : '',
      failed && failed.refused.length > 0 ? failuresOf(failed.refused) : '',
      failed?.isCut ? 'There are more refusals in the audit than were read here.' : '',
      agents ? accessOf(agents) : '',
      agents ? rightsOf(userId, agents, person) : '',
      ...briefly(found),
    ],
    found: found ?? [],
  }
}

function refusalsOf(handshakes: number, strangers: number): string {
  if (handshakes + strangers === 0) return '**No failed handshakes in the last day.**'
  const calls = `${counted(strangers, 'call')} refused of callers who are no agents`
  return `**In the last day ${counted(handshakes, 'failed handshake')} of agents, and ${calls}.**`
}

const failuresShownMax = 5

function failuresOf(titles: readonly string[]): string {
  const query = { in: 'fleet_notes', text: 'verify', where: 'outcome=invalid_signature' }
  return `[Failed handshakes](${pagePath('search', undefined, query)}), the newest first:\n\n${bullets(
    titles
      .slice(-failuresShownMax)
      .reverse()
      .map((title) => quoted(title)),
  )}`
}

const means: Readonly<Record<string, string>> = {
  admin: 'reads, writes and manages',
  member: 'reads and writes',
  viewer: 'reads',
}

/** Agents of the same access and tier share a line. */
function accessOf(agents: readonly AgentFacts[]): string {
  const groups = Map.groupBy(
    agents,
    ({ access, tier }) => `${access} (${means[access] ?? '-'}), tier ${tier}`,
  )
  const lines = [...groups].map(
    ([what, those]) =>
      `${what}: ${listed(those.map(({ agent_id: id }) => link(id, pagePath('agents', id))))}`,
  )
  return `Who may do what:\n\n${bullets(lines)}`
}

function rightsOf(userId: string, agents: readonly AgentFacts[], person: string | null | undefined): string {
  if (userId === 'operator') return 'You are the operator at the command line, who may do everything.'
  const own = agents.find(
    ({ agent_id, uid }) => agent_id.toLowerCase() === userId.toLowerCase() || uid === userId,
  )
  const access = own?.access ?? person
  if (access) return `You are ${quoted(userId)}: ${access}, who ${means[access] ?? '-'}.`
  return userId.startsWith('person_')
    ? ''
    : `You are ${quoted(userId)}, no agent and no person of the platform: a name without rights.`
}

/** Webhook targets and nodes: what cannot be reached comes first. */
export async function nexus({ facts, read, search }: Asked): Promise<Answer> {
  const [targets, letters, nodes, found] = await Promise.all([
    read('The webhook targets', () => facts.targets()),
    read('Their dead letters', () => facts.targetLetters()),
    read('The nodes', () => facts.nodes()),
    search(usual, 2),
  ])
  const [down, away] = [(targets ?? []).filter(isDown), (nodes ?? []).filter(isAway)]
  const heads = [
    down.length > 0 ? `${down.length} of ${plural(targets!.length, 'webhook target')} down` : '',
    away.length > 0 ? `${away.length} of ${plural(nodes!.length, 'node')} away` : '',
  ].filter((text) => text !== '')
  const known = [
    targets ? counted(targets.length, 'webhook target') : '',
    nodes ? counted(nodes.length, 'node') : '',
  ].filter((text) => text !== '')
  const well = known.length > 0 ? `**All is reachable:** ${listed(known)}.` : ''
  const lines = [...down, ...(targets ?? []).filter((one) => !isDown(one))]
    .slice(0, targetsShownMax)
    .map((one) => targetLine(one, letters?.get(one.target)))
  const up = (nodes ?? []).filter(({ status }) => status === 'up').map(({ slug }) => quoted(slug))
  return {
    paragraphs: [
      heads.length > 0 ? `**${listed(heads)}.**` : well,
      lines.length > 0 ? `Webhook targets:\n\n${bullets(lines)}` : '',
      bullets(away.map(nodeLine)),
      up.length > 0 ? `Nodes that answer: ${listed(up)}.` : '',
      ...briefly(found),
    ],
    found: found ?? [],
  }
}

function isAway({ status }: NodeState): boolean {
  return status === 'down'
}

function nodeLine({ slug, lastSeen }: NodeState): string {
  const since = lastSeen ? `since ${lastSeen.toISOString()}` : 'and never did'
  return `The node of ${quoted(slug)} does not answer, ${since}.`
}

function isDown({ state }: TargetFacts): boolean {
  return state === 'outage'
}

const targetsShownMax = 10

function targetLine({ target, state, lag, last_status: status }: TargetFacts, letters = 0): string {
  const parts = [
    // The API's word differs from that of the pages.
    state === 'outage' ? 'down' : state,
    `${lag} waiting`,
    letters > 0 ? `[${plural(letters, 'dead letter')}](${pagePath('dead-letters')})` : '',
    status === null ? '' : `last answer ${status}`,
  ]
  return `${link(target, pagePath('webhooks', target))}: ${parts.filter((text) => text !== '').join(', ')}`
}
