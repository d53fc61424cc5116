/** The courier's rules: what an answer means, what becomes of the event, how long it waits, how it is signed. */

import { describe, expect, test } from 'vitest'
import {
  headerBaseOf,
  requestHeaders,
  signatureOf,
  signingKey,
} from '#services/webhooks/deliver/request-headers.ts'
import {
  type CallFault,
  type CallResult,
  decide,
  outageWaitMs,
  parseRetryAfter,
  retryAfterMsMax,
  retryWaitMs,
  verdictOf,
  waitMsMax,
} from '#services/webhooks/deliver/verdict.ts'

const answered = (status: number, retryAfter: string | null = null): CallResult => ({
  status,
  fault: null,
  retryAfter,
  location: null,
  tookMs: 1,
})
const faulty = (fault: CallFault): CallResult => ({ ...answered(0), status: null, fault })

describe('an answer', () => {
  test.each([
    [[200, 201, 202, 204, 299], 'delivered'],
    [[400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451], 'refused'],
    [[301, 302, 303, 307, 308, 304, 408, 425, 500, 501, 505, 507, 599], 'failed'],
    [[429, 502, 503, 504], 'away'],
  ])('%j is %s', (statuses, verdict) => {
    for (const status of statuses) expect(verdictOf(answered(status))).toBe(verdict)
  })

  test('that never came is a target that is away; what cannot be sent is refused', () => {
    for (const fault of ['dns', 'blocked', 'connect', 'tls', 'reset', 'timeout', 'protocol'] as const)
      expect(verdictOf(faulty(fault))).toBe('away')
    expect(verdictOf(faulty('unsendable'))).toBe('refused')
  })
})

describe('an event', () => {
  const target = { retry: 2, holdHours: 72, onExhausted: 'dead_letter' as const }
  const facts = { retriesUsed: 0, breakerOpen: false, ageMs: 1_000 }

  test('has its first attempt and all retries, then its last attempt decides', () => {
    for (const verdict of ['failed', 'away'] as const) {
      expect(decide({ ...facts, verdict }, target)).toEqual({ kind: 'retry', retriesUsed: 1 })
      expect(decide({ ...facts, verdict, retriesUsed: 1 }, target)).toEqual({ kind: 'retry', retriesUsed: 2 })
    }
    expect(decide({ ...facts, verdict: 'failed', retriesUsed: 2 }, target)).toEqual({
      kind: 'park',
      why: 'answer',
    })
    expect(decide({ ...facts, verdict: 'away', retriesUsed: 2 }, target)).toEqual({
      kind: 'outage',
      retriesUsed: 3,
    })
  })

  test('spends no retry while its target is away, and has all of them again afterwards', () => {
    const open = { ...facts, breakerOpen: true }
    expect(decide({ ...open, verdict: 'away' }, target)).toEqual({ kind: 'outage', retriesUsed: 3 })
    expect(decide({ ...open, verdict: 'failed', retriesUsed: 3 }, target)).toEqual({
      kind: 'retry',
      retriesUsed: 1,
    })
    // Also after a restart, when the state of the breaker is lost.
    expect(decide({ ...facts, verdict: 'failed', retriesUsed: 3 }, target)).toEqual({
      kind: 'retry',
      retriesUsed: 1,
    })
    expect(decide({ ...facts, verdict: 'away', retriesUsed: 3 }, target)).toEqual({
      kind: 'outage',
      retriesUsed: 4,
    })
    expect(decide({ ...open, verdict: 'failed', retriesUsed: 1 }, { ...target, retry: 0 })).toEqual({
      kind: 'park',
      why: 'answer',
    })
  })

  test('is given up in an outage only when it is too old', () => {
    const old = { ...facts, verdict: 'away' as const, ageMs: 73 * 3_600_000 }
    expect(decide({ ...old, retriesUsed: 1 }, target)).toEqual({ kind: 'retry', retriesUsed: 2 })
    expect(decide({ ...old, retriesUsed: 2 }, target)).toEqual({ kind: 'park', why: 'held_too_long' })
  })

  test('waits for ever as poison when the operator wants it to', () => {
    const hold = { ...target, onExhausted: 'hold' as const }
    expect(decide({ ...facts, verdict: 'failed', retriesUsed: 2 }, hold)).toEqual({
      kind: 'hold',
      retriesUsed: 3,
      tries: 1,
    })
    expect(decide({ ...facts, verdict: 'failed', retriesUsed: 255 }, hold)).toMatchObject({
      kind: 'hold',
      retriesUsed: 255,
    })
    expect(decide({ ...facts, verdict: 'refused' }, hold)).toEqual({ kind: 'park', why: 'answer' })
  })
})

describe('a wait', () => {
  const now = Date.parse('2026-01-02T03:04:05Z')

  test('has full jitter below backoff_ms · 2^n and a minute', () => {
    for (let n = 1; n < 40; n++) {
      const waits = Array.from({ length: 50 }, () => retryWaitMs(n, 100, answered(500), now))
      expect(Math.max(...waits)).toBeLessThanOrEqual(Math.min(waitMsMax, 100 * 2 ** (n - 1)))
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(0)
    }
  })

  test('grows through an outage up to a minute', () => {
    for (let n = 1; n < 100; n++) {
      const ms = outageWaitMs(n, 100, faulty('connect'), now)
      expect(ms).toBeLessThanOrEqual(waitMsMax)
      expect(ms).toBeGreaterThanOrEqual(Math.min(waitMsMax, 250 * 2 ** (n - 1)) / 2)
    }
  })

  test('is no shorter than a 429 or 503 asks for: seconds or a date, within reason', () => {
    expect(retryWaitMs(1, 1, answered(429, '7'), now)).toBe(7_000)
    expect(outageWaitMs(1, 1, answered(503, '7'), now)).toBe(7_000)
    expect(retryWaitMs(1, 1, answered(429, 'Fri, 02 Jan 2026 03:04:35 GMT'), now)).toBe(30_000)
    expect(retryWaitMs(1, 1, answered(429, '86400000'), now)).toBe(retryAfterMsMax)
    expect(retryWaitMs(1, 1, answered(500, '7'), now)).toBeLessThanOrEqual(1)
    expect(parseRetryAfter('Friday, 02-Jan-26 03:04:35 GMT', now)).toBe(30_000)
    expect(parseRetryAfter('Fri, 02 Jan 2025 00:00:00 GMT', now)).toBe(0)
    for (const text of ['', 'soon', '-5', '1.5', '2027', '1e3']) {
      if (text !== '2027') expect(parseRetryAfter(text, now)).toBeNull()
    }
  })
})

describe('a request', () => {
  // The example of the Standard Webhooks specification's reference libraries.
  const published = {
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: '1614265330',
    body: Buffer.from('{"test": 2432232314}'),
    signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  }

  test('is signed as Standard Webhooks publishes it, once for each secret', () => {
    expect(signatureOf(published, [signingKey(published.secret)])).toBe(published.signature)
    expect(signingKey(published.secret.replace('whsec_', ''))).toEqual(signingKey(published.secret))
    const other = signingKey(`whsec_${Buffer.alloc(24, 1).toString('base64')}`)
    const both = signatureOf(published, [other, signingKey(published.secret)])
    expect(both.split(' ')[1]).toBe(published.signature)
    expect(both.split(' ')).toHaveLength(2)
  })

  test('carries the platform’s headers whatever the target configures', () => {
    const headers = {
      'X-Sequence': '9',
      'Content-Type': 'text/xml',
      Host: 'else.where',
      'X-Api-Key': 'k',
      'User-Agent': 'mine',
    }
    const base = headerBaseOf({ headers, signingSecrets: [] })
    const delivery = {
      target: 't',
      event: 'task.completed',
      agent: 'a',
      task_id: 'b',
      idempotency_key: 'a-b-task.completed',
      webhook_id: 'id',
      body: Buffer.alloc(0),
      received_at: 0,
      sequence: 4,
      replay: true,
    }
    const flat = requestHeaders(base, delivery, { sequence: 4, previous: null, attempt: 3, nowMs: 0 })
    const sent = Object.fromEntries(
      Array.from({ length: flat.length / 2 }, (_, n) => [flat[n * 2]!.toLowerCase(), flat[n * 2 + 1]]),
    )
    expect(sent).toEqual({
      'content-type': 'application/json',
      'x-api-key': 'k',
      'user-agent': 'mine',
      'x-idempotency-key': 'a-b-task.completed',
      'x-sequence': '4',
      'x-attempt': '3',
      'x-webhook-replay': 'true',
    })
  })
})
