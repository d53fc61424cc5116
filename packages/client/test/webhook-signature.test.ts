/** Only requests that a holder of the secret signed are accepted. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { verifyWebhook, type WebhookRefused } from '../src/webhook-signature.ts'
import { at, headersOf, secret, signatureOf } from './support/signature.ts'

const other = `whsec_${Buffer.alloc(24, 8).toString('base64')}`

const options = { secrets: [secret], now: () => at * 1_000 }

function reasonOf(work: () => unknown): string {
  try {
    work()
    return 'accepted'
  } catch (error) {
    return (error as WebhookRefused).reason
  }
}

describe('the signature of a webhook', () => {
  it('is the one of the Standard Webhooks specification', () => {
    // The example of the specification's own libraries.
    const headers = {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    }
    const given = { secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], now: () => 1_614_265_330_000 }
    expect(verifyWebhook(headers, '{"test": 2432232314}', given)).toEqual({
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: new Date(1_614_265_330_000),
    })
  })

  it('counts when any of the secrets made any of the signatures, in every form of headers', () => {
    const both = `${signatureOf('msg_1', at, 'x', Buffer.alloc(24, 9))} ${signatureOf('msg_1', at, 'x')}`
    const headers = headersOf('x', `v1a,abc ${both}`)
    const given = { ...options, secrets: [other, secret] }
    expect(verifyWebhook(headers, 'x', given).id).toBe('msg_1')
    expect(verifyWebhook(new Headers(headers), Buffer.from('x'), given).id).toBe('msg_1')
    const shouted = Object.fromEntries(Object.entries(headers).map(([name, v]) => [name.toUpperCase(), [v]]))
    expect(verifyWebhook(shouted, 'x', given).id).toBe('msg_1')
  })

  it('does not count for other bytes, times, ids or secrets, whatever they are', () => {
    const texts = fc.string({ maxLength: 40 })
    fc.assert(
      fc.property(texts, texts, fc.integer({ min: 1, max: 299 }), (sent, received, later) => {
        const headers = headersOf(sent)
        expect(reasonOf(() => verifyWebhook(headers, sent, options))).toBe('accepted')
        if (sent !== received) {
          expect(reasonOf(() => verifyWebhook(headers, received, options))).toBe('invalid_signature')
        }
        const moved = { ...headers, 'webhook-timestamp': String(at + later) }
        expect(reasonOf(() => verifyWebhook(moved, sent, options))).toBe('invalid_signature')
        const renamed = { ...headers, 'webhook-id': `msg_${later + 1}` }
        expect(reasonOf(() => verifyWebhook(renamed, sent, options))).toBe('invalid_signature')
        const elsewhere = { ...options, secrets: [other] }
        expect(reasonOf(() => verifyWebhook(headers, sent, elsewhere))).toBe('invalid_signature')
      }),
    )
  })

  it('does not let the border between id, time and body be moved', () => {
    const signature = signatureOf('a.1', at, 'x')
    const moved = { 'webhook-id': 'a', 'webhook-timestamp': '1', 'webhook-signature': signature }
    const lenient = { ...options, toleranceS: Number.MAX_SAFE_INTEGER }
    expect(reasonOf(() => verifyWebhook(moved, `${at}.x`, lenient))).toBe('accepted')
    expect(
      reasonOf(() =>
        verifyWebhook({ ...moved, 'webhook-id': 'a.1', 'webhook-timestamp': String(at) }, 'x', lenient),
      ),
    ).toBe('invalid_header')
  })

  it('ends with its time, either way, by a tolerance of five minutes', () => {
    const headers = headersOf('x')
    const verifyAt = (seconds: number) =>
      reasonOf(() => verifyWebhook(headers, 'x', { ...options, now: () => seconds * 1_000 }))
    expect([at - 300, at + 300].map(verifyAt)).toEqual(['accepted', 'accepted'])
    expect([at - 301, at + 301].map(verifyAt)).toEqual([
      'timestamp_out_of_tolerance',
      'timestamp_out_of_tolerance',
    ])
  })

  it('is refused by the name of its fault', () => {
    const headers = headersOf('x')
    const without = (name: string) => ({ ...headers, [name]: undefined })
    expect(reasonOf(() => verifyWebhook(without('webhook-id'), 'x', options))).toBe('missing_header')
    expect(reasonOf(() => verifyWebhook(without('webhook-signature'), 'x', options))).toBe('missing_header')
    expect(reasonOf(() => verifyWebhook({ ...headers, 'webhook-timestamp': 'now' }, 'x', options))).toBe(
      'invalid_header',
    )
    for (const garbage of ['v1,', 'v1,AAAA', 'nonsense', 'v1', ' ', 'v2,abc', `v1,${'A'.repeat(10_000)}`]) {
      expect(reasonOf(() => verifyWebhook({ ...headers, 'webhook-signature': garbage }, 'x', options))).toBe(
        'invalid_signature',
      )
    }
    expect(() => verifyWebhook(headers, 'x', { ...options, secrets: [] })).toThrow(TypeError)
    expect(() => verifyWebhook(headers, 'x', { ...options, secrets: ['whsec_not base64'] })).toThrow(
      TypeError,
    )
  })
})
