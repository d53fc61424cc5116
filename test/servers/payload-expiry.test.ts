/** Changed payloads and expiry on Kafka, registry, Postgres and (where it is) Qdrant. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { describePayloadsAndExpiry } from '../flow/payload-expiry.promises.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

const home = mkdtempSync(join(tmpdir(), 'fl-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

describePayloadsAndExpiry('distributed', async () => {
  await servers.clear()
  return { ...(await servers.newEnvironment()), FLOTILLA_HOME: home }
})
