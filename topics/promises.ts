/** What other systems may rely on, topic by topic. docs/topics.md and asyncapi.json are made from it. Texts are Markdown. */

import type { HeaderName } from './headers.ts'

export interface TopicPromise {
  /** The form of the key. */
  key: string
  /** A key of that form. */
  keyExample: string
  /** Which records keep their order: a text that continues the word "Order". */
  order: string
  /** Which records may come twice or be missing, and what a reader does about it. */
  repeats: string
  /** What a null value does; null where none is written. */
  tombstones: string | null
  /** Header, besides those of every record → on which records it is. */
  headers: Partial<Record<HeaderName, string>>
}

const hubRecords: TopicPromise = {
  key: '`note/<id>` or `goal/<id>`',
  keyExample: 'note/17',
  order:
    'of one note or goal: the order of its changes. `version` rises with each of them. None is ever deleted: a note that is put away has the status `archived`, and may become `active` again.',
  repeats:
    'A record may come again, also behind a newer one that then follows again. Keep the record with the highest `version` of a key. `flotilla rebuild notes` publishes every note once more, under new event ids and with the same versions.',
  tombstones: null,
  headers: {
    agent: 'on every change; not on what `flotilla rebuild notes` publishes',
    'request-id': 'where a request made the change',
    traceparent: 'where a request made the change',
    'replayed-from': 'on a dead letter that was put back',
  },
}

const runsEvents: TopicPromise = {
  key: 'the slug of the agent that runs; empty for the end of a whole dispatch',
  keyExample: 'whale',
  order:
    'of one attempt of a run: the order of its events. Another dispatcher may take a run over: what has a lower `attempt` than was seen of the run is void. The end of a run that nobody was running may come before its other events.',
  repeats:
    'A record may come twice, and any may be missing: the rows behind `GET /runs/{runId}/events` are the truth, and hold every event that has a `seq`. Use the topic to be quick, and that route to be complete. Drop what has an `event-id` that you have, and an event whose `root_run_id` and `seq` you have.',
  tombstones: null,
  headers: {},
}

const fleetEvents: TopicPromise = {
  key: 'the codename of the agent at a node; the agent id where an agent was deleted',
  keyExample: 'WHALE',
  order: 'of one agent: as the platform noted them; tasks that ended in the same moment in any order.',
  repeats: 'A record may come twice. Drop an `event-id` that you have. None is missing.',
  tombstones: null,
  headers: {
    agent: 'on every record',
    'request-id': 'on the end of a task that a request began',
    traceparent: 'on the end of a task that a request began',
    'replayed-from': 'on a dead letter that was put back',
  },
}

const auditEvents: TopicPromise = {
  key: 'the agent id; `(unknown)` for callers that are no agent of the platform',
  keyExample: 'scout',
  order:
    'of one operation: `begun` before `ended`, in the same partition. Records of one agent lie in the partition of its key, and for some seconds in another one when that does not answer: then their order is that of `occurred_at`.',
  repeats:
    'A record may come twice, a `begun` even in two partitions. `event_id` in the value is the same for the beginning and the end of an operation, and `event-id` in the headers (`<event_id>-begun`, `-ended`, `-summary`) for the copies of each: keep one record for each `event_id`, and let `ended` replace `begun`. An `ended` may be missing after a crash, a `begun` never.',
  tombstones: null,
  headers: {
    agent: 'on every record but summaries',
    'request-id': 'on every record but summaries',
    traceparent: 'on every record but summaries',
    'replayed-from': 'on a dead letter that was put back',
  },
}

const vectorsCommands: TopicPromise = {
  key: '`<collection>/<point id>`; the first slash ends the collection',
  keyExample: 'posts/post-17',
  order: 'of one point: the order in which its writes count.',
  repeats:
    'A record may come again. The last record of a key is its state, so never drop one because you know its `event-id`.',
  tombstones:
    'it deletes the point. It is kept for 30 days at least, so a reader that was away for longer begins again with an empty copy.',
  headers: {
    agent: 'on what agents wrote and on audit notes; on a note of the hub where its record has it',
    'request-id': 'on what agents wrote and on audit notes; on a note of the hub where its record has it',
    traceparent: 'on what agents wrote; on a note of the hub where its record has it',
    operation: 'on what agents wrote by the vector gateway',
    'replayed-from': 'on a dead letter that was put back',
  },
}

const webhooksAttempts: TopicPromise = {
  key: 'the name of the target',
  keyExample: 'pager',
  order:
    'of one target: the order of its attempts. Where another courier takes the target over, records of the former one may come late: `occurred_at` says when they were made.',
  repeats:
    'A record may come twice: drop an `event-id` that you have. Attempts may be missing where the log was away for long or a courier was killed. A record of the kind `state` says how a target is, and is repeated while something waits for it.',
  tombstones: null,
  headers: {},
}

export const promises = {
  hubRecords,
  runsEvents,
  fleetEvents,
  auditEvents,
  vectorsCommands,
  webhooksAttempts,
} as const
