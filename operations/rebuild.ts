/**
 * Rebuilds an index from the log, while writes and searches go on with the old one, and the points of notes from their
 * rows.
 */

import { Type } from 'typebox'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { withLease } from '#runtime/leases.ts'
import type { Output } from '#runtime/start/control.ts'
import { noteKind } from '#services/records/notes/notes.ts'
import { rewriteRecords } from '#services/records/store/write.ts'
import { isMirrorOff } from '#services/vectors/relational/settings.ts'
import {
  beginRebuild,
  embedderOf,
  type GenerationEngine,
  type Index,
  listGenerations,
  type RebuildParts,
  readRebuildStatus,
  relationalIndex,
  runningRebuild,
  vectorsIndex,
} from '#services/vectors/write/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type Action, defineAction } from './action.ts'
import type { ChangeContext } from './change.ts'
import type { OperatedPlatform } from './operation.ts'

const pollMs = 250
const leaseMs = deadlines.lease.rebuildMs
/** A rebuild moves only while the index's writer runs: after this long without one, the operator gets a hint. */
const idleMs = 10_000
/** For the writer to take an engine into use that nothing had opened before. */
const inUseMs = 10_000

export const rebuildVectorsAction = defineRebuild(vectorsIndex, 'vectors', 'a new vector index')
export const rebuildRelationalAction = defineRebuild(
  relationalIndex,
  'mirror',
  'new tables of the relational mirror',
)

function defineRebuild(index: Index, engine: 'vectors' | 'mirror', what: string) {
  return defineAction({
    name: `rebuild ${index.name}`,
    summary: `Fill ${what} from the log while the old one stays in use, then switch over; run again, it shows the rebuild in progress`,
    change: { action: 'index.rebuild', target: () => index.name },
    needs: [engine],
    services: [index.writer],
    args: Type.Object({}),
    async run({ platform, output, signal, note }: ChangeContext<string>) {
      const startedAt = Date.now()
      if (engine === 'mirror' && isMirrorOff(platform.env)) {
        throw new AppError('mirror_off', 'Nothing is mirrored (MIRROR=off): set MIRROR=on, then rebuild it.')
      }
      const parts = partsOf(platform, index, platform.engines[engine])
      if (platform.choices[engine].embedded) await untilInUse(parts, signal)
      const generation = await underLease({ platform, output, signal }, index.name, () => beginRebuild(parts))
      // It goes on in the writer from here, whether or not the operator watches it.
      await note(parts.relational, { after: { generation } })
      const records = await watch(parts, generation, output, signal)
      return { index: index.name, generation, records, took_ms: Date.now() - startedAt }
    },
    cli: [
      {
        example: `flotilla rebuild ${index.name}`,
        render: ({ index, generation, took_ms }) =>
          `${index} rebuilt: generation ${generation}, ${took_ms} ms`,
      },
    ],
  })
}

export const rebuildEmbeddingsAction = defineAction({
  name: 'rebuild embeddings',
  summary:
    "Make the vectors of all points with a text by the platform's embedder, in new indexes that are filled from the log while the old ones stay in use; run again, it shows the rebuild in progress",
  change: { action: 'index.rebuild', target: () => 'embeddings' },
  needs: ['vectors', 'mirror', 'embedder'],
  services: [vectorsIndex.writer, relationalIndex.writer],
  args: Type.Object({}),
  async run({ platform, output, signal, note }) {
    const startedAt = Date.now()
    const { vectors, mirror, embedder } = platform.engines
    const mirrored = isMirrorOff(platform.env) ? [] : [partsOf(platform, relationalIndex, mirror)]
    const all = [partsOf(platform, vectorsIndex, vectors), ...mirrored]
    for (const parts of all) {
      const engine = parts.index === vectorsIndex ? 'vectors' : 'mirror'
      if (platform.choices[engine].embedded) await untilInUse(parts, signal)
    }
    const lease = { platform, output, signal }
    const begin = () => beginEmbeddings(all, embedder.space)
    const begun = await underLease(lease, vectorsIndex.name, () =>
      underLease(lease, relationalIndex.name, begin),
    )
    await note(platform.engines.relational, {
      after: { embedder: embedder.space, generations: begun.map(({ generation }) => generation) },
    })
    let records = 0
    for (const { parts, generation } of begun) records = await watch(parts, generation, output, signal)
    return { index: 'embeddings', embedder: embedder.space, records, took_ms: Date.now() - startedAt }
  },
  cli: [
    {
      example: 'flotilla rebuild embeddings',
      render: ({ embedder, records, took_ms }) =>
        `vectors of texts are those of ${embedder}: ${records} records read, ${took_ms} ms`,
    },
  ],
})

/**
 * Begins a generation of each index for `space`, or finds those that are being filled for it. Throws AppError `conflict`
 * while another rebuild runs.
 */
async function beginEmbeddings(all: RebuildParts[], space: string) {
  const states = await Promise.all(
    all.map(async (parts) => {
      const known = await listGenerations(parts.relational, parts.index)
      return { parts, running: runningRebuild(known), kept: embedderOf(known) }
    }),
  )
  const other = states.find(({ running }) => running && running.embedder !== space)
  if (other) {
    const { name } = other.parts.index
    throw new AppError('conflict', `A rebuild of ${name} is running: run this again after it.`)
  }
  // One that ended before the other belongs to the same rebuild.
  const isRunning = states.some(({ running }) => running)
  const begun: { parts: RebuildParts; generation: number }[] = []
  for (const { parts, running, kept } of states) {
    if (isRunning && !running && kept === space) continue
    begun.push({ parts, generation: await beginRebuild(parts, space) })
  }
  return begun
}

/** An embedded engine that was opened for this alone gets its first generation from its writer, within a second. */
async function untilInUse({ relational, index, engine }: RebuildParts, signal: AbortSignal): Promise<void> {
  const until = Date.now() + inUseMs
  while (Date.now() < until && !signal.aborted) {
    const live = await engine.liveGeneration()
    const known = await listGenerations(relational, index)
    if (known.some(({ generation, state }) => generation === live && state !== 'retired')) return
    await sleep(pollMs, signal)
  }
}

/**
 * Waits for another command that begins the same: also for one that was killed, whose lease runs out. Throws AppError
 * `conflict` when commands hold it for longer than one may.
 */
async function underLease<T>(parts: LeaseParts, what: string, work: () => Promise<T>): Promise<T> {
  const { platform, output, signal } = parts
  const lease = { name: `rebuild-${what}`, holder: platform.instanceId, ttlMs: leaseMs }
  const until = Date.now() + leaseMs + idleMs
  for (let asked = 0; Date.now() < until; asked++) {
    const done = await withLease(platform.engines.relational, lease, work)
    if (done !== undefined) return done
    if (signal.aborted) break
    if (asked === 0) {
      const seconds = (leaseMs + idleMs) / 1_000
      await output.item(
        `Another command is starting a rebuild, or was killed at it: waiting for at most ${seconds} s.`,
      )
    }
    await sleep(pollMs, signal)
  }
  throw new AppError('conflict', 'Another command is starting a rebuild: run this one again to watch it.')
}

interface LeaseParts {
  platform: OperatedPlatform
  output: Output<string>
  signal: AbortSignal
}

/** Resolves with the number of records once the generation is live. */
async function watch(
  parts: RebuildParts,
  generation: number,
  output: Output<string>,
  signal: AbortSignal,
): Promise<number> {
  const { writer } = parts.index
  let movedAt = Date.now()
  for (;;) {
    const status = await readRebuildStatus(parts, generation)
    const label = status.state === 'building' ? 'reading the log' : 'switching over'
    output.progress({ label, done: status.done, total: status.total })
    if (status.state === 'live') return status.total
    if (status.state === 'retired') throw new AppError('conflict', 'A later rebuild has taken its place.')
    if (status.members > 0) movedAt = Date.now()
    if (Date.now() - movedAt > idleMs) {
      await output.item(
        `No ${writer} is running, so nothing moves: start one with \`flotilla start ${writer}\`.`,
      )
      movedAt = Date.now()
    }
    if (signal.aborted) {
      throw new AppError(
        'shutting_down',
        `The rebuild goes on in the ${writer}; run the command again to watch it.`,
      )
    }
    await sleep(pollMs, signal)
  }
}

export function partsOf(platform: OperatedPlatform, index: Index, engine: GenerationEngine): RebuildParts {
  const { eventLog, relational } = platform.engines
  const physicalName = platform.locations.get(vectorsCommands.name)?.physicalName ?? vectorsCommands.name
  return { eventLog, relational, index, engine, physicalName }
}

const label = 'publishing notes'

export const rebuildNotesAction = defineAction({
  name: 'rebuild notes',
  summary: 'Publish every note once more, so that all their points in fleet_notes are written again',
  change: { action: 'index.rebuild', target: () => 'notes' },
  services: ['outbox-publisher', 'note-indexer'],
  args: Type.Object({}),
  /** Resolves when their records are in the outbox, in the order of each note's changes. */
  async run({ platform, output, signal, describe }) {
    const startedAt = Date.now()
    const { relational } = platform.engines
    const { rows } = await relational.query<{ count: number }>('select count(*) from platform.notes')
    const total = rows[0]!.count
    const records = await rewriteRecords(relational, noteKind, {
      signal,
      written: (done) => output.progress({ label, done, total: Math.max(done, total) }),
    })
    describe({ count: records })
    return { index: 'notes', records, took_ms: Date.now() - startedAt }
  },
  cli: [
    {
      example: 'flotilla rebuild notes',
      render: ({ records, took_ms }) => `${records} notes published again, ${took_ms} ms`,
    },
  ],
})

export const rebuildActions: readonly Action[] = [
  rebuildVectorsAction,
  rebuildRelationalAction,
  rebuildEmbeddingsAction,
  rebuildNotesAction,
]
