/**
 * Records carry the time of the broker that appended them: a writer whose clock is wrong cannot make them expire, nor be
 * refused for it. Topics that were created before this was so are altered when the driver first writes to them.
 */

import { incrementalAlterConfigsV1 } from '@platformatic/kafka'
import kafkajs from 'kafkajs'
import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import type { AdminCalls } from './admin.ts'
import type { Cluster } from './cluster.ts'

export const timeSetting = { name: 'message.timestamp.type', value: 'LogAppendTime' }

/** As the protocol numbers them. */
const ofTopic = 2 as const
const set = 0 as const

/** Where the setting may not be changed the returned function says so in the log, and writing goes on. */
export function createBrokerTime({ ask }: AdminCalls, { asking }: Cluster, log: Logger) {
  return async function useBrokerTime(topic: string): Promise<void> {
    const { resources } = await ask((admin) =>
      admin.describeConfigs({
        resources: [
          { type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: [timeSetting.name] },
        ],
        includeSynonyms: false,
      }),
    )
    if (resources[0]?.configEntries[0]?.configValue === timeSetting.value) return
    try {
      const configs = [{ ...timeSetting, configOperation: set }]
      const change = { resourceType: ofTopic, resourceName: topic, configs }
      await incrementalAlterConfigsV1.api.async(await asking.toAny(), [change], false)
      log.info({ topic }, 'topics.broker-time')
    } catch (error) {
      log.warn({ topic, error: describeError(error) }, 'topics.broker-time-refused')
    }
  }
}
