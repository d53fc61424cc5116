/** The regular tasks of a dispatcher: pending runs without a notice, expired ones, probes of nodes, old runs. */

import type { RunNode } from '../nodes/nodes.ts'
import { advanceDispatch, runningDispatches } from '../state/dispatch-progress.ts'
import { axon } from '../state/end.ts'
import { ensureNodes, idsFor, writeProbes } from '../state/node-rows.ts'
import { readMessage } from '../state/read.ts'
import {
  endExpiredRuns,
  endLostRuns,
  endOverdueRuns,
  endUnstartedRuns,
  lookAtRuns,
  noteTurns,
  type Overview,
  queueLostRuns,
  unstartedRuns,
} from '../state/sweeps.ts'
import { joinMessage, namingMessage } from './mentions.ts'
import type { RunHost } from './parts.ts'

/** A dispatcher ends its own runs at their deadline; another one does so this much later. */
const overdueGraceMs = 2_000

/** What the last probes found. */
export class NodeHealth {
  #up: ReadonlySet<string> | null = null
  /** The nodes that have their rows. */
  #ensured: readonly RunNode[] | undefined
  /** Ids for events of these nodes, none of them used: a thousand new ones at each look would be most of its work. */
  #unusedIds: string[] | undefined

  /** Before the first probes it counts as live: nothing is given up for it then. */
  get axonIsLive(): boolean {
    return this.#up === null || this.#up.has(axon.slug)
  }

  /** Asks every node, and writes down what it found. */
  async probe(host: RunHost, signal: AbortSignal): Promise<void> {
    const { relational, nodes, probeNode } = host
    const known = nodes().nodes
    const probed = await Promise.all(
      known.map(async (node) => ({
        slug: node.slug,
        answered: await probeNode(node, signal).then(
          () => true,
          () => false,
        ),
      })),
    )
    if (signal.aborted) return
    if (known !== this.#ensured) {
      await ensureNodes(relational, known)
      this.#unusedIds = undefined
    }
    this.#ensured = known
    const ids = this.#unusedIds ?? idsFor(probed)
    this.#unusedIds = undefined
    const rows = await writeProbes(relational, probed, ids)
    if (!rows.some(({ changed }) => changed)) this.#unusedIds = ids
    const file = new Set(known.map(({ slug }) => slug))
    this.#up = new Set(
      rows.filter(({ slug, status }) => status === 'up' && file.has(slug)).map(({ slug }) => slug),
    )
    const changed = Map.groupBy(
      rows.filter((row) => row.changed),
      ({ status }) => status,
    )
    for (const [status, nodesSo] of changed) {
      const slugs = nodesSo.map(({ slug }) => slug)
      host.log[status === 'up' ? 'info' : 'warn']({ nodes: slugs, status }, 'runs.nodes')
      if (status === 'up') for (const slug of slugs) host.wake(slug)
    }
  }
}

/** Finds and settles due runs; true where there are any runs at all. `room`: runs that this dispatcher can take on. */
export async function sweep(host: RunHost, health: NodeHealth, room: number): Promise<Overview> {
  const { relational, times } = host
  const { axonIsLive } = health
  const look = await lookAtRuns(relational)
  if (look.running) {
    for (const slug of await queueLostRuns(relational)) host.wake(slug)
    await host.ended(await endLostRuns(relational))
  }
  for (const slug of look.queued ?? []) host.wake(slug)
  if (look.queued) {
    const nodes = look.queued.map((slug) => ({
      slug,
      slots: host.nodes().bySlug(slug)?.concurrency ?? null,
    }))
    await noteTurns(relational, nodes, room)
    // One time for both: a run whose time is over between them would end before those it names are joined.
    const since = new Date(look.at.getTime() - times.startMs)
    await joinUnstarted(host, since)
    await host.ended(await endUnstartedRuns(relational, { since, axonIsLive }))
  }
  if (look.asking) await host.ended(await endExpiredRuns(relational))
  if (look.queued || look.running || look.asking)
    await host.ended(await endOverdueRuns(relational, overdueGraceMs))
  if (look.dispatching) {
    for (const goalId of await runningDispatches(relational)) await advance(host, health, goalId)
  }
  return look
}

/** Whom a message names answers also where no node takes the run itself: it is about to end. */
async function joinUnstarted(host: RunHost, since: Date): Promise<void> {
  const { relational, nodes } = host
  for (const run of await unstartedRuns(relational, since)) {
    const known = nodes()
    if (!namingMessage(run, known)) continue
    const message = await readMessage(relational, run.runId)
    const named = namingMessage({ ...run, message }, known)
    if (!named) continue
    const joined = await joinMessage(relational, run, named, known, 'queued')
    for (const { slug } of joined?.joined ?? []) host.wake(slug)
  }
}

/** A dispatch whose runs have ended goes on. */
export async function advance(host: RunHost, health: NodeHealth, goalId: number): Promise<void> {
  const { relational, times, news } = host
  const { synthesis, ended } = await advanceDispatch(relational, goalId, {
    axonIsLive: health.axonIsLive && host.nodes().bySlug(axon.slug) !== undefined,
    synthesisMs: times.synthesisMs,
  })
  if (synthesis) host.wake(axon.slug)
  if (ended) news.dispatchEnded(goalId, ended)
}
