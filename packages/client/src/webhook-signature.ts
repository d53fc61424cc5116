/** Verifies that a webhook request was sent by a holder of the signing secret. */

import { createHmac, timingSafeEqual } from 'node:crypto'

/** `IncomingMessage.headers`, a `Headers` object or a plain record. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions {
  /**
   * `whsec_…` or the base64 behind it. During a rotation the old and the new one: a request counts when any of them
   * signed it.
   */
  secrets: readonly string[]
  /** How far the sender's clock may be away, in seconds, either way. Default 300. */
  toleranceS?: number
  /** Milliseconds since 1970. Default Date.now. */
  now?: () => number
}

export type RefusalReason =
  | 'missing_header'
  | 'invalid_header'
  | 'timestamp_out_of_tolerance'
  | 'invalid_signature'
  | 'invalid_body'

/** The request is not what it claims to be; `status` is the HTTP answer that it deserves. */
export class WebhookRefused extends Error {
  readonly reason: RefusalReason
  /** 503 for the time alone: a clock that is wrong for a moment loses nothing, since the sender tries again. */
  readonly status: 400 | 401 | 503

  constructor(reason: RefusalReason, message: string) {
    super(message)
    this.name = 'WebhookRefused'
    this.reason = reason
    this.status = statusOf[reason] ?? 400
  }
}

const statusOf: Partial<Record<RefusalReason, 401 | 503>> = {
  invalid_signature: 401,
  timestamp_out_of_tolerance: 503,
}

/** A request carries one signature per secret of the sender. */
const signaturesMax = 16

/**
 * Checks the signature of the Standard Webhooks specification (v1: HMAC-SHA256 over `id.timestamp.body`) on the bytes as
 * they came. Returns the id and the timestamp that were signed; throws WebhookRefused.
 */
export function verifyWebhook(
  headers: WebhookHeaders,
  body: Uint8Array | string,
  options: VerifyOptions,
): { id: string; timestamp: Date } {
  const keys = checkSecrets(options.secrets)
  const id = requiredHeader(headers, 'webhook-id')
  // In the signed text a dot follows the id: an id that holds a dot could be read in two ways.
  if (!/^[!-~]{1,256}$/.test(id) || id.includes('.')) {
    throw new WebhookRefused('invalid_header', 'webhook-id is no id')
  }
  const seconds = requiredHeader(headers, 'webhook-timestamp')
  if (!/^\d{1,12}$/.test(seconds)) throw new WebhookRefused('invalid_header', 'webhook-timestamp is no time')
  const given = signaturesOf(requiredHeader(headers, 'webhook-signature'))
  const expected = keys.map((key) =>
    createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest(),
  )
  // Every pair is compared, so that the time says nothing of which one matched.
  let matches = 0
  for (const one of expected) for (const other of given) matches += timingSafeEqual(one, other) ? 1 : 0
  if (matches === 0) throw new WebhookRefused('invalid_signature', 'no secret made any of the signatures')
  const timestamp = new Date(Number(seconds) * 1_000)
  const awayMs = Math.abs((options.now ?? Date.now)() - timestamp.getTime())
  if (awayMs > (options.toleranceS ?? 300) * 1_000) {
    throw new WebhookRefused('timestamp_out_of_tolerance', 'it was signed too long ago, or in the future')
  }
  return { id, timestamp }
}

/** The value of a header, whatever the case of its name; undefined when it is absent, empty or there twice. */
export function headerOf(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const values = Object.entries(headers)
    .filter(([key]) => key.toLowerCase() === name)
    .flatMap(([, value]) => value ?? [])
  return values.length === 1 && values[0] !== '' ? values[0] : undefined
}

export function requiredHeader(headers: WebhookHeaders, name: string): string {
  const value = headerOf(headers, name)
  if (value === undefined) throw new WebhookRefused('missing_header', `the header ${name} is missing`)
  return value
}

/** The v1 signatures of the list; others (v1a) are for other keys. */
function signaturesOf(header: string): Buffer[] {
  return header
    .split(' ')
    .slice(0, signaturesMax)
    .filter((one) => one.startsWith('v1,'))
    .map((one) => Buffer.from(one.slice('v1,'.length), 'base64'))
    .filter((signature) => signature.length === 32)
}

/** The keys behind the secrets. Throws TypeError when one is no secret, or none is given. */
export function checkSecrets(secrets: readonly string[]): Buffer[] {
  if (secrets.length === 0) throw new TypeError('give at least one secret')
  return secrets.map(keyOf)
}

function keyOf(secret: string): Buffer {
  const text = secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : secret
  const key = Buffer.from(text, 'base64')
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text) || key.length < 16) {
    throw new TypeError('a secret is whsec_ and the base64 of at least 16 bytes')
  }
  return key
}
