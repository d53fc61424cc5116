/**
 * The closed list of error codes: the status, title, meaning and remedy of each. Faults, API descriptions and docs/errors.md
 * are all made from it.
 */

export interface ErrorEntry {
  /** HTTP status; `alsoStatus` holds the others that the code may come with, and when. */
  status: number
  alsoStatus?: Readonly<Record<number, string>>
  /** Of the problem document: the same for every fault of this code. */
  title: string
  /** A sentence, where the title leaves something open. */
  meaning?: string
  /** True when the answer has `retryAfter`. */
  waits?: boolean
  /** What the caller should do. */
  action: string
}

/** The answer names the seconds after which trying again helps. */
const later = { waits: true, action: 'Wait for `retryAfter` seconds and send it again.' } as const

/** The codes are part of the public interface: never rename one. Status 500: only operators see it, in a log or command. */
const catalog = {
  invalid_json: {
    status: 400,
    title: 'The body is not JSON',
    meaning: 'The body is missing, is not JSON, or is not in UTF-8.',
    action: 'Send a JSON object in UTF-8.',
  },
  invalid_filter: {
    status: 400,
    title: 'The filter is not allowed',
    meaning: '`filter_sql` uses something that is not allowed (`detail` names it), or failed on the data.',
    action: 'Write the condition with what the description of search-pg lists.',
  },
  unknown_target: {
    status: 400,
    title: 'There is no such webhook target',
    meaning: '`targets` names one that is not in the targets file. Nothing was sent.',
    action: 'Correct the name, or add the target to the file.',
  },
  invalid_operation_id: {
    status: 400,
    title: 'The operation id is not one of this platform',
    action: 'Send an `operation_id` exactly as upsert or delete answered it.',
  },
  bad_request: {
    status: 400,
    alsoStatus: { 408: 'it arrives too slowly', 431: 'address and headers exceed 1 MiB' },
    title: 'The request is malformed',
    meaning:
      'The HTTP itself is faulty: an address that is not validly encoded, a wrong Content-Length, a body that is cut short.',
    action: 'Correct what `detail` names.',
  },
  unauthorized: {
    status: 401,
    title: 'A valid credential is required',
    meaning: 'The credential is missing, malformed, expired or revoked.',
    action: 'Get a new gateway key by handshake and verify, and send it as `Authorization: Bearer`.',
  },
  unknown_agent: {
    status: 401,
    title: 'The agent is not known',
    meaning: 'No agent of this id is provisioned, or it was deleted.',
    action: 'Correct `agent_id`, or ask an operator to provision the agent.',
  },
  invalid_signature: {
    status: 401,
    title: 'The signature was not accepted',
    meaning: 'The signature is wrong, or its challenge is older than 60 seconds or was used already.',
    action: 'Ask for a new challenge and sign both nonces with the agent’s present private key.',
  },
  forbidden: {
    status: 403,
    title: 'Not allowed',
    meaning:
      'The caller is known but may not do this; or a request to the webhook relay is not from its own machine.',
    action: 'Ask an operator for the access that `detail` names.',
  },
  reserved_id: {
    status: 403,
    title: 'The id belongs to the platform',
    action: 'Choose ids in fleet_notes that do not begin with `audit-` or `note-`.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    meaning: 'There is nothing at this address, or not what it names.',
    action: 'Correct the address.',
  },
  collection_not_found: {
    status: 404,
    title: 'The collection does not exist',
    action: 'Use one of fleet_notes, posts, knowledgebase and almemsha.',
  },
  table_not_found: {
    status: 404,
    title: 'There is no such table to search',
    action: 'Use `embeddings`, or another table of the schema `vectors` with a column of type vector(1536).',
  },
  point_not_found: {
    status: 404,
    title: 'The point does not exist',
    action: 'Correct the id; if it was just written, send the `operation_id` as `after`.',
  },
  operation_not_found: {
    status: 404,
    title: 'The operation is not known',
    meaning: 'The log was replaced after this operation.',
    action: 'Read the points themselves; write again what is missing.',
  },
  dead_letter_not_found: {
    status: 404,
    title: 'The dead letter does not exist',
    meaning: 'There is none of this name, or it was replayed or discarded already.',
    action: 'List the dead letters.',
  },
  method_not_allowed: {
    status: 405,
    title: 'The method is not allowed here',
    action: 'Use a method that the header `Allow` names.',
  },
  conflict: {
    status: 409,
    title: 'The request conflicts with the present state',
    action: 'Read the present state, which `detail` names, and decide again.',
  },
  agent_exists: {
    status: 409,
    title: 'The agent exists already',
    meaning: 'There is an agent of this id; ids that differ by case alone are the same.',
    action: 'Choose another id, or update the agent that is there.',
  },
  idempotency_conflict: {
    status: 409,
    title: 'The Idempotency-Key was used with another body',
    action: 'Send a new key with a new body, or the same bytes with the same key.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'The first request with this Idempotency-Key is still running',
    ...later,
  },
  operation_failed: {
    status: 409,
    alsoStatus: { 502: 'the write that waited with `wait=true` failed itself' },
    title: 'The operation failed',
    meaning:
      'A point of the operation (409: of the one named in `after`) could not be applied; `detail` says why.',
    action: 'Correct the point and write it again.',
  },
  superseded: {
    status: 409,
    title: 'A later record has taken its place',
    meaning: 'A replay would put an older value over a newer one.',
    action: 'Discard the dead letter.',
  },
  group_active: {
    status: 409,
    title: 'The consumer group has members',
    action: 'Stop the workers of this group first.',
  },
  payload_too_large: {
    status: 413,
    title: 'The body is too large',
    action: 'Send less in one request.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The content type is not supported',
    action: 'Send `Content-Type: application/json`.',
  },
  secret_in_payload: {
    status: 422,
    title: 'The payload holds a secret',
    meaning:
      '`result` contains a configured secret, an agent or gateway key, or a private key. Nothing was sent.',
    action: 'Take the secret out.',
  },
  validation_failed: {
    status: 422,
    title: 'The request is not valid',
    action: 'Correct the fields that `errors` names by JSON Pointer.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    meaning: 'More operations, or handshakes, began in a second than the tier allows.',
    ...later,
  },
  too_many_concurrent: {
    status: 429,
    title: 'Too many operations at once',
    meaning: 'As many operations of this agent are running as its tier allows.',
    waits: true,
    action: 'Wait for answers, or for `retryAfter` seconds, before sending more.',
  },
  quota_exceeded: {
    status: 429,
    title: "The day's operations are used up",
    waits: true,
    action: 'Wait until 00:00 UTC (`retryAfter`), or ask an operator for a larger quota.',
  },
  backlog_full: {
    status: 429,
    title: 'Too many points are waiting to be applied',
    meaning: 'More than 20,000 points of this agent are accepted and not yet applied.',
    ...later,
  },
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
  query_timeout: {
    status: 503,
    title: 'The query took too long',
    waits: true,
    action: 'Narrow the condition, or send it again after `retryAfter` seconds.',
  },
  not_yet_applied: {
    status: 503,
    title: 'The operation is not applied yet',
    meaning: 'The operation named in `after` was not applied within ten seconds.',
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

export type ErrorCode = keyof typeof catalog

export const errorCodes: Readonly<Record<ErrorCode, ErrorEntry>> = catalog

/** True for codes that callers of an interface may be answered: what else has status 500 is answered `internal_error`. */
export function isAnswered(code: ErrorCode): boolean {
  return errorCodes[code].status !== 500 || code === 'internal_error'
}
