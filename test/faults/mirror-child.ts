/** A platform of nothing but the relational-writer that also feeds it, until it is killed; prints what the log has. */

import { pino } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { migrationFolders } from '#services/migrations.ts'
import { relationalWriter } from '#services/vectors/relational/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'

const keys = 60
const batch = 20
const vector = Float32Array.from({ length: 1536 }, (_, i) => Math.cos(i))

const running = await startPlatform({
  migrations: migrationFolders,
  services: [relationalWriter],
  chosen: [],
  env: { FLOTILLA_HOME: process.argv[2]!, OPS_PORT: '0' },
  log: pino({ level: 'silent' }),
  print() {},
  control: () => async () => null,
})
const { publisher, engines } = running.platform
// The kill must hit a writer at work, not one that opens its tables.
while ((await engines.mirror.liveGeneration()) === 0) await sleep(20)
for (let n = Number(process.argv[3]); ; n += batch) {
  const numbers = Array.from({ length: batch }, (_, i) => n + i)
  await publisher.publish(
    vectorsCommands,
    numbers.map((one) => {
      vector[0] = one
      const value = {
        vector: Buffer.from(new Float32Array(vector).buffer),
        payload: JSON.stringify({ n: one }),
        embedder: null,
        making: null,
        expires_at: null,
      }
      return {
        key: { collection: 'posts', id: `p${(one * 7) % keys}` },
        value: one % 11 === 10 ? null : value,
      }
    }),
  )
  process.stdout.write(`${n + batch}\n`)
}
