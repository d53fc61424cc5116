/** What many callers look at again and again: each is read once for all of them, and kept for a moment. */

import { withTimeout } from '#lib/backoff.ts'
import { type Cached, createCached } from '#lib/cached.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { type BrainState, readBrainState } from '#operations/brain-state.ts'
import { openGroupLags, readLag } from '#operations/lag.ts'
import type { OperatedPlatform, OperationContext } from '#operations/operation.ts'
import { type LastAttempts, openLastAttempts } from '#operations/webhooks/attempts.ts'
import { listTargetsAction, type TargetsResult } from '#operations/webhooks/targets.ts'
import { createGroupLooks, type LookedLag, readOldestUnread } from './group-looks.ts'
import { type LagHistory, openLagHistory } from './lag-history.ts'

const stateKeptMs = 1_000
const lagKeptMs = 1_000
/** Reading the backlog of each target takes longer than the rest. */
const targetsKeptMs = 2_000
const targetsTimeoutMs = 30_000
/** Whoever asks does not wait for it. */
const oldestTimeoutMs = 30_000
const timeoutMs = deadlines.request.observedMs

export interface Observed extends Closeable {
  brainState: Cached<BrainState>
  lag: Cached<LookedLag>
  lagHistory: LagHistory
  targets: Cached<TargetsResult>
  /** Webhook attempts of the last hour. */
  attemptBars(): Promise<ReturnType<LastAttempts['bars']>>
}

export function openObserved(platform: OperatedPlatform): Observed {
  const { log } = platform
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  const groupLags = scope.add('lags of groups', openGroupLags(platform))
  // Followed from the first time that somebody asks for it.
  let attempts: Promise<LastAttempts> | undefined
  const lastAttempts = () => {
    attempts ??= openLastAttempts(platform).then(
      (opened) => scope.add('last attempts', opened),
      (error) => {
        attempts = undefined
        throw error
      },
    )
    return attempts
  }
  const lagHistory = scope.add(
    'lag history',
    openLagHistory({ read: () => withTimeout(groupLags.read(), timeoutMs, late), log }),
  )
  const look = createGroupLooks({
    readOldest: (group) => readOldestUnread(platform, group, AbortSignal.timeout(oldestTimeoutMs)),
    samplesOf: lagHistory.of,
  })
  return {
    brainState: createCached({
      keptMs: stateKeptMs,
      timeoutMs,
      late,
      async read() {
        const last = await lastAttempts()
        return readBrainState(platform, (target) => last.of(target)?.status ?? null)
      },
    }),
    lag: createCached({
      keptMs: lagKeptMs,
      timeoutMs,
      late,
      read: async () => look({ groups: await readLag(platform), as_of: new Date().toISOString() }),
    }),
    lagHistory,
    targets: createCached({
      keptMs: targetsKeptMs,
      timeoutMs: targetsTimeoutMs,
      late,
      read: () => listTargetsAction.run(unnamed(platform), {}),
    }),
    attemptBars: async () => (await lastAttempts()).bars(),
    close: () => scope.close(),
  }
}

function late(): AppError {
  return new AppError('log_unavailable', 'The log does not answer in time; try again in a few seconds.', {
    retryAfter: 2,
  })
}

/** It only reads, for whoever asks: nobody is named. */
function unnamed(platform: OperatedPlatform): OperationContext {
  return {
    platform,
    output: { item() {}, progress() {} },
    signal: AbortSignal.timeout(targetsTimeoutMs),
    actor: { kind: 'command_line', id: 'main-api' },
  }
}
