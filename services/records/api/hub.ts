/** What the routes of the hub work with, opened and closed together. */

import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { createOutboxBell } from '#runtime/notices.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { type GatewayKeys, openGatewayKeys } from '#services/access/gateway-keys/gateway-keys.ts'
import { createCallerStreams } from '#services/access/limits/caller-streams.ts'
import { type Limiter, openLimiter } from '#services/access/limits/limiter.ts'
import { openProvider } from '#services/access/provider/provider.ts'
import { openTokens, type Tokens } from '#services/access/tokens/tokens.ts'
import { openFeed } from './events/feed.ts'
import type { HubParts } from './notes.ts'

export type HubContext = ServiceContext<
  'eventLog' | 'relational' | 'identity',
  { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
>

interface Hub extends HubParts, Closeable {
  keys: GatewayKeys
  tokens: Tokens
  limiter: Limiter
}

/** Close it after the last answer. */
export async function openHub(context: HubContext): Promise<Hub> {
  const { engines, publisher, codec, log } = context
  const { relational, eventLog } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'close-failed'),
  )
  try {
    const identity = scope.add('identity provider', await openProvider(context))
    const tokens = scope.add('tokens', await openTokens({ relational, eventLog, publisher, identity, log }))
    const keys = scope.add('keys', await openGatewayKeys({ relational, eventLog, publisher, log }))
    // The burst and concurrency of an agent are shared with all interfaces; its day is the vector gateway's.
    const limiter = scope.add('limits', openLimiter({ relational, log }, { daily: false }))
    const bell = scope.add('bell of the outbox', createOutboxBell({ relational, log }))
    const feed = scope.add('feed', await openFeed({ eventLog, codec, publisher, log }))
    return {
      keys,
      tokens,
      limiter,
      relational,
      eventLog,
      feed,
      streams: createCallerStreams({ tokens, log }),
      async change(_request, _change, work) {
        const row = await work()
        bell.ring()
        return row
      },
      log,
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}
