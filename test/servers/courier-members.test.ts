/** Several couriers keep their promises on Kafka. */

import { openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { describeCouriers } from '../flow/courier-members.promises.ts'

describeCouriers('Kafka', async () => {
  const cluster = await openKafkaCluster(1)
  return { env: { KAFKA_BROKERS: cluster.brokers.join(',') }, closed: () => cluster.close() }
})
