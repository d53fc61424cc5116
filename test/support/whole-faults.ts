/** Does to the running platform what a schedule says, heals it, and keeps a journal of both. */

import { sleep } from '#lib/backoff.ts'
import type { Place, WholeProcesses } from './whole-processes.ts'
import type { Fault, FaultKind } from './whole-schedule.ts'
import type { WholeServers } from './whole-servers.ts'

export interface Faults {
  /** Runs the schedule; resolves when the last fault is healed. */
  run(schedule: readonly Fault[]): Promise<void>
  /** One line for each fault, with when it began and ended; those that found their target busy are left out. */
  journal: string[]
  /** How many there were of each kind. */
  counts: Partial<Record<FaultKind, number>>
  /** Why a process did not come back, or a command failed that must not. */
  failures: string[]
}

/** How a fault of a kind is done: what it needs for itself meanwhile, and its work. */
interface Deed {
  /** Another fault that needs the same is left out. */
  busy: string
  what: string
  run(): Promise<void>
}

export function createFaults(servers: WholeServers, processes: WholeProcesses): Faults {
  const sinceMs = performance.now()
  const journal: string[] = []
  const counts: Faults['counts'] = {}
  const failures: string[] = []
  const busy = new Set<string>()
  const at = () => `${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`

  async function perform(fault: Fault, deed: Deed): Promise<void> {
    busy.add(deed.busy)
    counts[fault.kind] = (counts[fault.kind] ?? 0) + 1
    const begun = at()
    const entry = journal.push(`${begun} ${deed.what}, under way`) - 1
    try {
      await deed.run()
      journal[entry] = `${begun} to ${at()} ${deed.what}`
    } catch (error) {
      journal[entry] = `${begun} to ${at()} ${deed.what}: ${error}`
      // A rebuild may be refused while an engine is away; it goes on by itself, or the last one does it.
      if (!fault.kind.startsWith('rebuild')) failures.push(`${deed.what}: ${error}`)
    } finally {
      busy.delete(deed.busy)
    }
  }

  return {
    journal,
    counts,
    failures,
    async run(schedule) {
      const running: Promise<void>[] = []
      for (const fault of schedule) {
        await sleep(Math.max(0, fault.atMs - (performance.now() - sinceMs)))
        const deed = deedOf(fault, servers, processes)
        if (deed && !busy.has(deed.busy)) running.push(perform(fault, deed))
      }
      await Promise.all(running)
    },
  }
}

/** Null for a fault of a server that is not there. */
function deedOf(fault: Fault, servers: WholeServers, processes: WholeProcesses): Deed | null {
  const { kind, forMs, target } = fault
  const seconds = `for ${(forMs / 1_000).toFixed(1)} s`
  if (kind === 'kill' || kind === 'pause' || kind === 'restart') {
    const place = processes.places[target % processes.places.length] as Place
    return {
      busy: place.name,
      what: `${kind} of ${place.name} ${seconds}`,
      run: () => hit(place, kind, forMs),
    }
  }
  if (kind.startsWith('rebuild')) {
    return { busy: kind, what: kind, run: async () => void (await processes.command(...kind.split(' '))) }
  }
  if (kind.startsWith('broker')) {
    const node = target % servers.kafka.nodes.length
    const what = `${kind} ${node + 1} ${seconds}${lateness(fault)}`
    // One at a time: two of three hold every record.
    return { busy: 'broker', what, run: () => hitBroker(servers, node, fault) }
  }
  if (kind === 'postgres kill') {
    const run = async () => {
      await servers.postgres.kill9()
      await sleep(forMs)
      await servers.postgres.start()
    }
    return { busy: kind, what: `${kind} ${seconds}`, run }
  }
  const { qdrant } = servers
  if (qdrant === null) return null
  const run = async () => {
    if (kind === 'qdrant silence')
      return void (await Promise.all(qdrant.ways.map((way) => silent(way, fault))))
    await qdrant.kill9()
    await sleep(forMs)
    await qdrant.start()
  }
  return { busy: 'qdrant', what: `${kind} ${seconds}${lateness(fault)}`, run }
}

async function hit(place: Place, kind: 'kill' | 'pause' | 'restart', forMs: number): Promise<void> {
  if (kind === 'pause') {
    place.pause()
    await sleep(forMs)
    return place.resume()
  }
  await (kind === 'kill' ? place.kill9() : place.stop())
  await sleep(forMs)
  await place.start()
}

async function hitBroker({ kafka, ways }: WholeServers, n: number, fault: Fault): Promise<void> {
  const node = kafka.nodes[n] as number
  if (fault.kind === 'broker silence') return silent(ways[n] as WholeServers['ways'][number], fault)
  if (fault.kind === 'broker pause') {
    process.kill(kafka.pid(node), 'SIGSTOP')
    await sleep(fault.forMs)
    process.kill(kafka.pid(node), 'SIGCONT')
    return
  }
  await (fault.kind === 'broker kill' ? kafka.kill9(node) : kafka.stop(node))
  await sleep(fault.forMs)
  await kafka.start(node)
}

async function silent(way: WholeServers['ways'][number], { forMs, late, newWork }: Fault): Promise<void> {
  const silence = way.silence(newWork ? 'open' : 'all')
  await sleep(forMs)
  await silence.end(late ? 'arrives' : 'is lost')
}

function lateness({ kind, late, newWork }: Fault): string {
  if (!kind.endsWith('silence')) return ''
  return `, new connections ${newWork ? 'work' : 'are silent too'}, what was sent ${late ? 'arrives late' : 'is lost'}`
}
