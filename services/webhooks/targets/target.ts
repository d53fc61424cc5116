/** A webhook target as relay and courier use it: read from the targets file, with its variables filled in. */

import { connectionHeaders } from '#runtime/yaml-file/fields.ts'

export interface WebhookTarget {
  name: string
  url: URL
  /** With variables filled in. Never printed. */
  headers: Record<string, string>
  /** Retries after the first attempt. */
  retry: number
  backoffMs: number
  /** Only these events and agents; null for all. */
  events: readonly string[] | null
  agents: readonly string[] | null
  ordering: 'target' | 'agent'
  /** What happens when an event that keeps failing has used up its retries. */
  onExhausted: 'dead_letter' | 'hold'
  /** During an outage the head of the queue is parked when it is older than this. */
  holdHours: number
  /** Newest first; all of them sign. Empty: no signature. */
  signingSecrets: readonly string[]
}

export interface WebhookTargets {
  /** By name. */
  targets: ReadonlyMap<string, WebhookTarget>
  /** Values that must never be written anywhere: filled-in variables of 8 characters and more, signing secrets. */
  secrets: readonly string[]
  /** Changes when the file's content did. */
  version: string
}

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
