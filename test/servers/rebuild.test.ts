/** Rebuilding and growing on Kafka, registry, Postgres and (where it is) Qdrant. */

import { afterAll, beforeAll } from 'vitest'
import { describeRebuild } from '../flow/rebuild.promises.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

describeRebuild('distributed', async () => {
  await servers.clear()
  return servers.newEnvironment()
})
