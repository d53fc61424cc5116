/** Copies of the log on Kafka and Postgres; sinks are processes of their own. */

import { describeLogRecords } from '../flow/log-records.promises.ts'
import { openStack } from '../support/distributed-servers.ts'

describeLogRecords('Kafka', async () => {
  const servers = await openStack()
  return { env: await servers.newEnvironment(), close: servers.close }
})
