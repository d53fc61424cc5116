/**
 * The entry of an error code; codes of what the platform itself cannot do now, and of faults that only operators see (status
 * 500).
 */

export interface ErrorEntry {
  /** HTTP status; `alsoStatus` holds the others that the code may come with, and when. */
  status: number
  alsoStatus?: Readonly<Record<number, string>>
  /** Title of the problem document: the same for every fault of this code. */
  title: string
  /** A sentence, where the title leaves something open. */
  meaning?: string
  /** True when the answer has `retryAfter`. */
  waits?: boolean
  /** What the caller should do. */
  action: string
}

/** The answer names the seconds after which trying again helps. */
export const later = { waits: true, action: 'Wait for `retryAfter` seconds and send it again.' } as const

export const serverCodes = {
  internal_error: {
    status: 500,
    title: 'An unexpected fault',
    meaning: 'A fault of the platform itself; its log line has the `request_id`.',
    action: 'Give the `request_id` to an operator.',
  },
  log_unavailable: {
    status: 503,
    title: 'The event log does not answer',
    meaning: 'The event log does not answer. What was sent may still be applied.',
    ...later,
  },
  vector_engine_unavailable: {
    status: 503,
    title: 'The vector engine does not answer',
    ...later,
  },
  relational_engine_unavailable: {
    status: 503,
    title: 'The relational engine does not answer',
    ...later,
  },
  registry_unavailable: {
    status: 503,
    title: 'The schema registry does not answer',
    ...later,
  },
  embedder_unavailable: {
    status: 503,
    title: 'The embedder does not answer',
    ...later,
  },
  identity_unavailable: {
    status: 503,
    title: 'The identity provider does not answer',
    ...later,
  },
  storage_unavailable: {
    status: 503,
    title: 'A file of the platform cannot be written now',
    meaning: 'The disk is full, or the machine has no memory or open files left. Nothing was changed.',
    ...later,
  },
  query_timeout: {
    status: 503,
    title: 'The query took too long',
    waits: true,
    action: 'Narrow the condition, or send it again after `retryAfter` seconds.',
  },
  mirror_off: {
    status: 503,
    title: 'The relational mirror is switched off',
    meaning:
      'This platform runs with `MIRROR=off`: no points are mirrored into tables. Waiting does not help.',
    action:
      'Search with `POST /v1/vectors/search` and a `filter`, or have an operator set `MIRROR=on` for vector-gateway and relational-writer.',
  },
  not_yet_applied: {
    status: 503,
    title: 'The operation is not applied yet',
    meaning:
      'An earlier write was not applied in time: the operation named in `after`, within ten seconds, one of the points of a changed payload, or, for search-pg, the writes that the relational mirror missed while it slept.',
    ...later,
  },
  overloaded: {
    status: 503,
    title: 'Too much work is waiting',
    ...later,
  },
  shutting_down: {
    status: 503,
    title: 'The service is stopping',
    ...later,
  },
  fenced: {
    status: 500,
    title: 'Another one has taken its place',
    meaning: 'A process that was paused or cut off tried to write what its successor writes now.',
    action: 'Nothing: the successor goes on.',
  },
  invalid_configuration: {
    status: 500,
    title: 'The configuration is not valid',
    action: 'Correct the variables that the message names; `flotilla doctor` shows what is in force.',
  },
  incompatible_schema: {
    status: 500,
    title: 'The schema change is not compatible',
    action: 'Add optional fields with defaults only.',
  },
  topic_mismatch: {
    status: 500,
    title: 'A topic differs from the catalogue',
    action: 'Change the topic as the message says, for example with `flotilla topics grow`.',
  },
  data_directory_in_use: {
    status: 500,
    title: 'The data directory has another owner',
    action: 'Stop the process that the message names, or set another FLOTILLA_HOME.',
  },
} as const satisfies Record<string, ErrorEntry>
