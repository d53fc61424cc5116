/** The courier keeps its promises on Kafka. */

import { openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { describeCourier } from '../flow/courier.promises.ts'

describeCourier('Kafka', async () => {
  const cluster = await openKafkaCluster(1)
  return { env: { KAFKA_BROKERS: cluster.brokers.join(',') }, closed: () => cluster.close() }
})
