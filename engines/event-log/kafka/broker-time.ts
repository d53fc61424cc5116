/**
 * Records carry the time of the broker that appended them: a writer whose clock is wrong cannot make them expire, nor be
 * refused for it. Topics that were created before this was so are altered when the driver first writes to them.
 */

import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import type { AdminCalls } from './admin.ts'
import type { AdminClient } from './admin-client.ts'

export const timeSetting = { name: 'message.timestamp.type', value: 'LogAppendTime' }

/** Where the setting may not be changed the returned function says so in the log, and writing goes on. */
export function createBrokerTime(
  { ask }: AdminCalls,
  client: Pick<AdminClient, 'changeSetting'>,
  log: Logger,
) {
  return async function useBrokerTime(topic: string): Promise<void> {
    const settings = await ask((client) => client.settings(topic, [timeSetting.name]))
    if (settings.get(timeSetting.name) === timeSetting.value) return
    try {
      await client.changeSetting(topic, timeSetting)
      log.info({ topic }, 'topics.broker-time')
    } catch (error) {
      log.warn({ topic, error: describeError(error) }, 'topics.broker-time-refused')
    }
  }
}
