/** Copies of the log on Kafka and Postgres; sinks are processes of their own. */

import { openDistributedServers } from '../support/distributed-servers.ts'
import { describeLogRecords } from './log-records.promises.ts'

describeLogRecords('Kafka', async () => {
  const servers = await openDistributedServers()
  return { env: await servers.newEnvironment(), close: servers.close }
})
