/** The headers of a request: the target's own, the platform's, and the signatures. */

import { createHmac } from 'node:crypto'
import type { WebhookDelivery } from '#schemas/types.ts'
import { platformHeaders, type WebhookTarget } from '../targets/targets-file.ts'

interface RequestFacts {
  sequence: number
  /** Null: nothing is known of it. */
  previous: number | null
  attempt: number
  nowMs: number
}

/** What every request of a target has in common. */
export interface HeaderBase {
  fixed: readonly string[]
  keys: readonly Buffer[]
}

/** A target cannot replace the headers that the platform sets. */
export function headerBaseOf(target: Pick<WebhookTarget, 'headers' | 'signingSecrets'>): HeaderBase {
  const own = Object.entries(target.headers).filter(([name]) => !platformHeaders.has(name.toLowerCase()))
  const named = own.some(([name]) => name.toLowerCase() === 'user-agent')
  const fixed = ['content-type', 'application/json', ...(named ? [] : ['user-agent', 'flotilla-webhooks'])]
  for (const [name, value] of own) fixed.push(name, value)
  return { fixed, keys: target.signingSecrets.map(signingKey) }
}

/** Names and values in turn. */
export function requestHeaders(base: HeaderBase, delivery: WebhookDelivery, facts: RequestFacts): string[] {
  const { sequence, previous, attempt, nowMs } = facts
  const headers = [
    ...base.fixed,
    'X-Idempotency-Key',
    delivery.idempotency_key,
    'X-Sequence',
    String(sequence),
    'X-Attempt',
    String(attempt),
  ]
  if (previous !== null) headers.push('X-Previous-Sequence', String(previous))
  if (delivery.replay) headers.push('X-Webhook-Replay', 'true')
  if (base.keys.length > 0) {
    const timestamp = String(Math.floor(nowMs / 1_000))
    const signed = { id: delivery.webhook_id, timestamp, body: delivery.body }
    headers.push('webhook-id', delivery.webhook_id, 'webhook-timestamp', timestamp)
    headers.push('webhook-signature', signatureOf(signed, base.keys))
  }
  return headers
}

/** Standard Webhooks, version 1: HMAC-SHA256 over `id.timestamp.body`, one signature for each key. */
export function signatureOf(
  { id, timestamp, body }: { id: string; timestamp: string; body: Uint8Array },
  keys: readonly Buffer[],
): string {
  return keys
    .map(
      (key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
    )
    .join(' ')
}

/** `whsec_` and base64, or the base64 alone: the targets file takes nothing else. */
export function signingKey(secret: string): Buffer {
  return Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
}
