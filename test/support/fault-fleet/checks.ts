/** After a fault: everything that was acknowledged is there, once and in order, and nobody had to help. */

import type { RunEvent } from '#client/client.ts'
import { eventually } from '../eventually.ts'
import type { Received, WebhookSink } from '../webhook-sink.ts'
import type { Acknowledged } from './load.ts'
import type { FleetPlatform, FleetPlatforms } from './platforms.ts'

export interface CheckedParts {
  platforms: FleetPlatforms
  acknowledged: Acknowledged
  sink: WebhookSink
}

const runEndsMsMax = 60_000
const eventsMsMax = 60_000
const runsAtOnce = 5
/** Entries in the longest page that the client asks for. */
const pageMax = 1_000

/** The broken promises. Nothing may run any more except the platforms' own work. */
export async function checkFleet({ platforms, acknowledged, sink }: CheckedParts): Promise<string[]> {
  const { client } = platforms.platforms[0] as FleetPlatform
  const { dead_letters: letters } = await platforms.command<{ dead_letters: unknown[] }>(
    'dead-letters',
    'list',
  )
  const points = await acknowledged.points.check(client)
  const notes = await checkNotes(acknowledged.notes, client)
  const runs = await checkRuns(acknowledged.runs)
  // The end of a run that was waited for just now is still on its way to the target.
  const arrived = () => checkEvents(acknowledged, sink.received).length === 0
  await eventually('every event has arrived', arrived, eventsMsMax).catch(() => {})
  const events = checkEvents(acknowledged, sink.received)
  // Runs that ended and were checked do not change.
  acknowledged.runs.clear()
  return [
    ...points,
    ...notes,
    ...runs,
    ...events,
    ...(letters.length > 0 ? [`${letters.length} records are among the dead letters`] : []),
    ...platforms.platforms.flatMap(({ name, process: { child } }) =>
      child.exitCode === null && child.signalCode === null ? [] : [`platform ${name} ended by itself`],
    ),
  ]
}

async function checkNotes(notes: Acknowledged['notes'], client: FleetPlatform['client']): Promise<string[]> {
  const found = new Map<number, string>()
  for await (const { id, subject } of client.notes.all({ limit: pageMax })) found.set(id, subject)
  return [...notes]
    .filter(([id, subject]) => found.get(id) !== subject)
    .map(([id, subject]) => `${subject} (${id}) is ${found.get(id) ?? 'missing'}`)
}

/** Every accepted run ends, its events are numbered without gaps, and its agent is shown with one answer at most. */
async function checkRuns(runs: Acknowledged['runs']): Promise<string[]> {
  const left = [...runs]
  const faults: string[] = []
  const some = async () => {
    for (let one = left.pop(); one; one = left.pop()) {
      const [runId, client] = one
      const ended = async () => {
        const run = await client.runs.get(runId)
        return run.endedAt === null ? null : run
      }
      const run = await eventually(`${runId} ends`, ended, runEndsMsMax).catch((error) => String(error))
      if (typeof run === 'string') {
        faults.push(run)
        continue
      }
      const events: RunEvent[] = []
      for await (const event of await client.runs.resume(runId)) events.push(event)
      const numbers = events.map(({ id }) => id)
      if (new Set(numbers).size !== numbers.length) faults.push(`${runId} shows an event twice`)
      if (events.length !== run.lastEventId)
        faults.push(`${runId} has ${events.length} of ${run.lastEventId} events`)
      const answers = events.filter(({ author }) => author === 'WHALE').length
      if (answers !== (run.status === 'completed' ? 1 : 0) && run.error?.code !== 'node_lost')
        faults.push(`${runId} is ${run.status} and shows ${answers} answers`)
    }
  }
  await Promise.all(Array.from({ length: runsAtOnce }, some))
  return faults
}

/**
 * Every event that was accepted arrived; each names the one before it, and they first arrived in their order. The end
 * of every run is an event, too, and comes once.
 */
function checkEvents({ events, runs }: Acknowledged, received: readonly Received[]): string[] {
  const faults: string[] = []
  const arrived = new Set<number>()
  let last: number | null = null
  const endsOf = new Map<string, Set<number>>()
  for (const { sequence, previous, status, replay, body } of received) {
    if (replay || status === null || status >= 300) continue
    const { task_id } = JSON.parse(body.toString()) as { task_id: string }
    endsOf.set(task_id, (endsOf.get(task_id) ?? new Set()).add(sequence))
    if (arrived.has(sequence)) continue
    if (last !== null && sequence < last) faults.push(`event ${sequence} arrived behind ${last}`)
    else if (previous !== last) faults.push(`event ${sequence} follows ${last} and names ${previous}`)
    arrived.add(sequence)
    last = sequence
  }
  for (const sequence of events) if (!arrived.has(sequence)) faults.push(`event ${sequence} did not arrive`)
  for (const runId of runs.keys()) {
    const ends = endsOf.get(runId)?.size ?? 0
    if (ends !== 1) faults.push(`${ends} events tell the end of ${runId}`)
  }
  return faults
}
