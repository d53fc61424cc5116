/** `flotilla rebuild vectors`: a fresh index from the log, while writes and searches go on. */

import type { Command as Program } from 'commander'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { withLease } from '#runtime/leases.ts'
import type { Platform } from '#runtime/platform.ts'
import { beginRebuild, type RebuildParts, readRebuildStatus } from '#runtime/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'

const lookMs = 250
const leaseMs = 30_000
/** A rebuild moves only while a vector-writer runs: said after this long without one. */
const idleMs = 10_000

interface RebuildResult {
  index: 'vectors'
  generation: number
  records: number
  took_ms: number
}

export const rebuildVectorsCommand = defineCommand<object, RebuildResult>({
  name: 'rebuild vectors',
  needs: ['vectors'],
  services: ['vector-writer'],
  async run({ platform, output, signal }) {
    const startedAt = Date.now()
    const parts = partsOf(platform)
    const lease = { name: 'rebuild-vectors', holder: platform.instanceId, ttlMs: leaseMs }
    const generation = await withLease(parts.relational, lease, () => beginRebuild(parts))
    if (generation === undefined) {
      throw new AppError(
        'conflict',
        'Another command is beginning a rebuild: run this one again to watch it.',
      )
    }
    let movedAt = Date.now()
    for (;;) {
      const status = await readRebuildStatus(parts, generation)
      const label = status.state === 'building' ? 'reading the log' : 'switching over'
      output.progress({ label, done: status.done, total: status.total })
      if (status.state === 'live') {
        return { index: 'vectors', generation, records: status.total, took_ms: Date.now() - startedAt }
      }
      if (status.state === 'retired') throw new AppError('conflict', 'A later rebuild has taken its place.')
      if (status.members > 0) movedAt = Date.now()
      if (Date.now() - movedAt > idleMs) {
        output.item('No vector-writer is at work on it: start one with `flotilla start vector-writer`.')
        movedAt = Date.now()
      }
      if (signal.aborted) {
        throw new AppError(
          'shutting_down',
          'The vector-writers go on with it; run the command again to watch.',
        )
      }
      await sleep(lookMs, signal)
    }
  },
})

function partsOf(platform: Platform): RebuildParts {
  const { eventLog, relational, vectors } = platform.engines
  const physicalName = platform.places.get(vectorsCommands.name)?.physicalName ?? vectorsCommands.name
  return { eventLog, relational, vectors, physicalName }
}

export function registerRebuild(program: Program, cli: Cli): void {
  const rebuild = program.command('rebuild').description('make an index anew from the log')
  const vectors = rebuild
    .command('vectors')
    .description(
      'fill a new vector index from the log while the old one goes on, then put it in its place; ' +
        'run again, it watches the rebuild that is under way',
    )
  describe(vectors, 'flotilla rebuild vectors').action(async ({ json }: { json?: boolean }) => {
    await cli.run(
      rebuildVectorsCommand,
      {},
      {
        json,
        item: (hint: string) => hint,
        render: ({ generation, took_ms }) => `vectors are rebuilt: generation ${generation}, ${took_ms} ms`,
      },
    )
  })
}
