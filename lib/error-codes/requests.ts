/** Codes of requests that are at fault, or come too often: statuses 400 to 499. */

import { type ErrorEntry, later } from './server.ts'

export const requestCodes = {
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
  invalid_agent_key: {
    status: 400,
    title: 'The agent key is malformed',
    meaning: 'The body is not `{"key": "svc_…"}` with 64 lowercase hex digits.',
    action: 'Send the agent key exactly as it was issued.',
  },
  identity_refused: {
    status: 400,
    title: 'The identity provider refused the request',
    meaning: '`error.message` is the string that Identity Toolkit answers for it.',
    action: 'Begin again with a new custom token, or sign in again.',
  },
  bad_request: {
    status: 400,
    alsoStatus: {
      408: 'it arrives too slowly',
      431: 'address and headers exceed 16 KiB, at the vector gateway 32 KiB',
    },
    title: 'The request is malformed',
    meaning:
      'The HTTP itself is faulty: an address that is not validly encoded, a wrong Content-Length, a body that is cut short.',
    action: 'Correct what `detail` names.',
  },
  unauthorized: {
    status: 401,
    title: 'A valid credential is required',
    meaning: 'The credential is missing, malformed, expired or revoked.',
    action:
      'Get a new gateway key by handshake and verify, or a new ID token, and send it as `Authorization: Bearer`.',
  },
  token_expired: {
    status: 401,
    title: 'The ID token has expired',
    action: 'Refresh it, or trade the agent key for a new one.',
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
  password_change_required: {
    status: 403,
    title: 'The password has to be replaced first',
    meaning: 'The person signed in with a password that another one gave them.',
    action: 'Replace it with `PUT /api/v1/me/password`; nothing else is allowed before.',
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
    meaning: 'It was never made, or it is deleted.',
    action: 'GET /v1/collections lists those that there are; POST makes another one.',
  },
  collection_exists: {
    status: 409,
    title: 'The collection exists already',
    action: 'Use it, or choose another name.',
  },
  collection_fixed: {
    status: 409,
    title: 'The collection belongs to the platform',
    meaning: 'The collections fleet_notes, posts, knowledgebase and almemsha are always there.',
    action: 'Delete its points, or make a collection of your own.',
  },
  too_many_collections: {
    status: 409,
    title: 'There are as many collections as may be',
    action:
      'Delete one that nobody needs. Points of several kinds may share one: filter them by a key of their payload.',
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
  person_exists: {
    status: 409,
    title: 'The person exists already',
    meaning: 'There is a person with this e-mail (in any case), or with this account at the provider.',
    action: 'Change the role of the person who is there, or remove them first.',
  },
  last_admin: {
    status: 409,
    title: 'The last admin stays',
    action: 'Make another person admin first.',
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
  thread_mismatch: {
    status: 409,
    title: 'Parent and thread do not agree',
    meaning: 'The note named by `parent_id` is in another thread than `thread_id`.',
    action: 'Send `parent_id` alone: the reply joins the thread of its parent.',
  },
  invalid_transition: {
    status: 409,
    title: 'The status cannot change like that',
    meaning: '`detail` names the present status and those that may follow it.',
    action: 'Read the present state and decide again.',
  },
  goal_of_dispatch: {
    status: 409,
    title: 'The goal belongs to a dispatch',
    meaning: 'The status of such a goal follows its runs.',
    action: 'Cancel the dispatch, or wait until it ends.',
  },
  position_expired: {
    status: 410,
    title: 'The log does not hold this position',
    meaning:
      'Records behind it were removed (retention), or the topic was copied into more partitions or replaced since, so that its offsets mean something else.',
    action:
      'Go on from `earliest`, the oldest position that is kept; what was removed is missing, so a copy is best made again from there.',
  },
  precondition_failed: {
    status: 412,
    title: 'It was changed since it was read',
    meaning: 'The version in `If-Match` is not the present one.',
    action: 'Read it again, and send the change with its new `ETag`.',
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
  unknown_thread: {
    status: 422,
    title: 'There is no such thread',
    action: 'Send the `thread_id` of a note that exists, or none to start a thread.',
  },
  unknown_parent: {
    status: 422,
    title: 'There is no such note to reply to',
    action: 'Send the `id` of a note that exists as `parent_id`.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    meaning:
      'More operations began in a second than the tier allows, or more handshakes or trades of an agent key than their rates do.',
    ...later,
  },
  too_many_concurrent: {
    status: 429,
    title: 'Too many operations at once',
    meaning: 'As many operations of this agent are running as its tier allows.',
    waits: true,
    action: 'Wait for answers, or for `retryAfter` seconds, before sending more.',
  },
  too_many_streams: {
    status: 429,
    title: 'Too many open streams',
    meaning: 'The caller has 10 open streams, or the instance 500.',
    waits: true,
    action: 'Close a stream, or try again after `retryAfter` seconds.',
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
} as const satisfies Record<string, ErrorEntry>
