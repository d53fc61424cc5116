/** What a webhook target is once its file was read and its variables were filled in. */

export interface WebhookTarget {
  name: string
  url: URL
  /** As they travel: the variables are filled in. Never printed. */
  headers: Record<string, string>
  /** Retries after the first attempt. */
  retry: number
  backoffMs: number
  /** Only these events and agents; null for all. */
  events: readonly string[] | null
  agents: readonly string[] | null
  ordering: 'target' | 'agent'
  /** What follows when the retries of a poisonous event are used up. */
  onExhausted: 'dead_letter' | 'hold'
  /** An outage ends here: the head is parked when it is older. */
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
