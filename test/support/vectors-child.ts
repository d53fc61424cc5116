/** A process that upserts points one batch after the other and says which are acknowledged, until it is killed. */

import { pino } from 'pino'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import { deleteOf, randomVector, upsertOf } from './vectors.ts'

const [directory, round] = process.argv.slice(2) as [string, string]
const dimension = 64
const store = await openEmbeddedVectors({
  directory,
  collections: ['points'],
  dimension,
  log: pino({ level: 'silent' }),
})
process.stdout.write('open\n')
for (let i = 0; ; i += 30) {
  const ids = Array.from({ length: 30 }, (_, j) => `${round}-${i + j}`)
  await store.apply(
    'points',
    ids.map((id, j) =>
      upsertOf(id, randomVector(dimension, Number(round) * 100_000 + i + j), {
        round: Number(round),
        i: i + j,
      }),
    ),
  )
  // Every third one is deleted again: it must stay deleted.
  await store.apply('points', [deleteOf(ids[0]!)])
  process.stdout.write(`${ids.join(' ')}\n`)
}
