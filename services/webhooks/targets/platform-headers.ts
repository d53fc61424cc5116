/** The headers of a webhook that only the platform may set. */

/** The courier sets these, or the connection needs them; in lower case. */
export const platformHeaders: ReadonlySet<string> = new Set([
  'x-idempotency-key',
  'x-sequence',
  'x-previous-sequence',
  'x-attempt',
  'x-webhook-replay',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'content-type',
  'content-length',
  'content-encoding',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
])
