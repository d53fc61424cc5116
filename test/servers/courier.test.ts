/** The courier keeps its promises on Kafka. */

import { describeCourier } from '../flow/courier.promises.ts'
import { openStack } from '../support/distributed-servers.ts'

describeCourier('Kafka', async () => {
  const stack = await openStack()
  return { env: { KAFKA_BROKERS: stack.brokers.join(',') }, closed: () => stack.close() }
})
