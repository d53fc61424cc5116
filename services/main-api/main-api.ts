/** What the routes of the main API work with, opened and closed together. */

import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { createRecordTexts, type RecordTexts } from '#operations/topic-stream/records.ts'
import {
  createKeyLimits,
  createLastUse,
  type KeyLimits,
  type LastUse,
} from '#services/access/agent-keys/trades.ts'
import { type CallerStreams, createCallerStreams } from '#services/access/limits/caller-streams.ts'
import { type Limiter, openLimiter } from '#services/access/limits/limiter.ts'
import { createReadTurns, type ReadTurns } from '#services/access/limits/read-turns.ts'
import type { OneTimePassword } from '#services/access/people/first-admin.ts'
import { openPeople, type People } from '#services/access/people/open-people.ts'
import { openRefusals, type Refusals } from '#services/access/people/refused-sign-ins.ts'
import { openProvider } from '#services/access/provider/provider.ts'
import { openTokens, type Tokens } from '#services/access/tokens/tokens.ts'
import { type Feed, openFeed } from '#services/records/api/events/feed.ts'
import { openRunsFollowed, type RunsFollowed } from '#services/runs/gateway/gateway.ts'
import { type Observed, openObserved } from './observed.ts'
import { type MainApiContext, operatedBy } from './operate.ts'

export interface MainApi extends Closeable {
  context: MainApiContext
  identity: AnyIdentityProvider
  tokens: Tokens
  limiter: Limiter
  streams: CallerStreams
  observed: Observed
  /** Follows hub.records. */
  feed: Feed
  runs: RunsFollowed
  readTurns: ReadTurns
  recordTexts: RecordTexts
  refusedChanges: Refusals
  keyLimits: KeyLimits
  lastUse: LastUse
  people: People
}

/** `port` is the one that the interface listens on, once it does. Close it after the last answer. */
export async function openMainApi(
  context: MainApiContext,
  port: () => number | undefined,
  firstPassword?: Promise<OneTimePassword>,
): Promise<MainApi> {
  const { engines, publisher, codec, env, log } = context
  const { relational, eventLog } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  const refusals = {
    what: 'audit of refused changes',
    others: 'other routes',
    lost: 'admin-audit.not-written',
  }
  try {
    const identity = scope.add('identity provider', await openProvider(context, port))
    const tokens = scope.add('tokens', await openTokens({ relational, eventLog, publisher, identity, log }))
    const people = scope.add('people', await openPeople({ relational, identity, env, log, firstPassword }))
    // The burst and concurrency of an agent are shared with all interfaces; its day is the vector gateway's.
    const limiter = scope.add('limits', openLimiter({ relational, log }, { daily: false }))
    const lastUse = scope.add('last use', createLastUse({ relational, log }))
    const feed = scope.add('feed', await openFeed({ eventLog, codec, publisher, log }))
    const runs = await openRunsFollowed(context, scope)
    return {
      context,
      identity,
      tokens,
      limiter,
      streams: createCallerStreams({ tokens, log }),
      readTurns: createReadTurns(),
      recordTexts: createRecordTexts(),
      feed,
      runs,
      observed: scope.add('observed', openObserved(operatedBy(context))),
      refusedChanges: scope.add('refused changes', openRefusals({ relational, log, ...refusals })),
      keyLimits: createKeyLimits(),
      lastUse,
      people,
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}
