/** Damages an index a hundred thousand times (or as often as the first argument says): the long run of the fuzz test. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { buildIndex } from '../src/build.ts'
import { fuzzIndex } from '../test/support/fuzz.ts'
import { linesOf, sampleRecords } from '../test/support/index.ts'

const mutations = Number(process.argv[2] ?? 100_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)

// Each opened index holds arrays outside of the heap: let go of them in time.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const folder = mkdtempSync(join(tmpdir(), 'fl-fuzz-'))
try {
  const input = join(folder, 'records.jsonl')
  const output = join(folder, 'index.stidx')
  writeFileSync(input, linesOf(sampleRecords(300)))
  buildIndex({ input, output, broadFrom: 200 })
  const startedAt = performance.now()
  const report = fuzzIndex(output, mutations, seed, (soFar) => {
    collect()
    if (soFar.mutations % 10_000 === 0) console.log(JSON.stringify(soFar))
  })
  console.log(
    `seed ${seed}, ${Math.round((performance.now() - startedAt) / 1000)} s: ${JSON.stringify(report)}`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
