/** The headers of a webhook that only the platform may set. */

import { connectionHeaders } from '#runtime/yaml-file/headers.ts'

/** The courier sets these, or the connection needs them; in lower case. */
export const platformHeaders: ReadonlySet<string> = new Set([
  ...connectionHeaders,
  'x-idempotency-key',
  'x-sequence',
  'x-previous-sequence',
  'x-attempt',
  'x-webhook-replay',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
])
