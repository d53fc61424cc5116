/**
 * What other systems may rely on, topic by topic and of all alike. docs/topics.md and asyncapi.json are made from it. Texts are
 * Markdown.
 */

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

const vectorsCollections: TopicPromise = {
  key: '`<collection>~<making>`; each making of a name has a key of its own',
  keyExample: 'tea~0a1b2c3d4e',
  order: 'of all collections: the order in which they were made and deleted.',
  repeats:
    'A record may come again. Keep the last one of a key; a making that was deleted stays deleted. The four collections of the platform are not in it.',
  tombstones: 'the points of a deleted collection are deleted in `vectors.commands`, too.',
  headers: {
    agent: 'on every record with a value; of a command line it is the user of the system',
    'request-id': 'where a request made the change',
  },
}

const vectorsCommands: TopicPromise = {
  key: "`<collection>/<point id>`; the first slash ends the collection. A collection of one's own is written `<name>~<making>`: made again after it was deleted, it has other keys",
  keyExample: 'posts/post-17',
  order:
    'of one point: the order in which its writes count. Where a changed payload, or the deletion of a point that expired, met a newer write, the record after it corrects it.',
  repeats:
    'A record may come again. The last record of a key is its state, so never drop one because you know its `event-id`.',
  tombstones:
    'it deletes the point; a deleted collection is deleted point by point. It is kept for 30 days at least, so a reader that was away for longer begins again with an empty copy.',
  headers: {
    agent: 'on what agents wrote and on audit notes; on a note of the hub where its record has it',
    'request-id': 'on what agents wrote and on audit notes; on a note of the hub where its record has it',
    traceparent: 'on what agents wrote; on a note of the hub where its record has it',
    operation: 'on what agents wrote by the vector gateway',
    awaited: 'where the request waits for the point to be applied',
    basis: 'where the record was made from an earlier one: `<epoch>/<offset>` of it',
    'payload-change': 'where a payload was changed: the change, as JSON in base64url',
    correction: 'where the platform corrects the record before it',
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
  vectorsCollections,
  vectorsCommands,
  webhooksAttempts,
} as const

export const recordHeaders = {
  'event-id': 'unique for the event, the same in every copy of its record',
  producer:
    'the services of the process that wrote it, joined by `+`; `flotilla` where it runs all, `flotilla-command` for a command',
  'occurred-at':
    'when it happened, by the clock of the process or database that noted it: ISO 8601, UTC, milliseconds',
  agent: 'the agent, or the person by uid, whose doing it is',
  'request-id': 'the `X-Request-Id` of the request that caused it',
  traceparent: 'the W3C trace context of that request; with tracing on, of the span that sent the record',
  operation: 'the operation number that all records of one request share',
  awaited: 'that somebody waits for it: progress is reported sooner',
  basis: 'the position of the record that this one was made from',
  'payload-change': 'the keys that were set and removed',
  correction: 'that the record corrects the one that its `basis` names',
  'replayed-from': 'the dead letter that an operator put back as this record, which is a new event',
} as const

export type HeaderName = keyof typeof recordHeaders

/** Every record has them, but for the fences of the Kafka driver. */
export const commonHeaders = ['event-id', 'producer', 'occurred-at'] as const satisfies HeaderName[]

export interface RuleSection {
  title: string
  rules: readonly string[]
}

/** Header and key of the fences that the Kafka driver appends; the driver's own constants equal them. */
export const fence = { header: 'flotilla-fence', key: 'flotilla.fence' } as const

const common = commonHeaders.map((name) => `\`${name}\``).join(', ')

export const readingRules: readonly RuleSection[] = [
  {
    title: 'A record',
    rules: [
      'The key is text in UTF-8. The value is Avro in the Confluent wire format: a zero byte, four bytes with the id of its schema (big-endian), then the binary encoding. The schema is in the registry under its id, and under the subject `<topic>-value`.',
      `Headers are text in UTF-8, each name once. Every record has ${common}. Ignore headers that you do not know.`,
      "The record's time is that of the broker that appended it, so it may step back a little from partition to partition and when a leader moves. When something happened is in `occurred-at`.",
      `On Kafka a record with the header \`${fence.header}\` (key \`${fence.key}\`, null value) is a fence: the driver writes it behind a batch that it gave up. It says nothing, and has none of the other headers. Skip it before anything else.`,
      'Nothing is written in transactions, so the isolation level makes no difference. A record has 2 MiB at most.',
    ],
  },
  {
    title: 'Order and repeats',
    rules: [
      "Records with one key lie in one partition, in order: the partition is murmur2 of the key, as the Java client's default. Between partitions there is no order. Where a topic differs, it says so.",
      'A record may come twice: count on it. The second copy has the same `event-id`. The platform itself remembers the last 65,536 ids of each partition; where those of a process take more than 64 MiB, fewer of the partitions that rest longest, but never fewer than 1,024.',
      'On compacted topics the last record of a key is its state. Never drop one there because you know its `event-id`: the platform may write a record once more, behind one that was put back, so that it is the last again.',
      'Keep your positions together with what you made of the records, in one transaction, and a kill costs you nothing. Positions in a group of the broker come before or after, never with it.',
    ],
  },
  {
    title: 'What is kept',
    rules: [
      'A compacted topic keeps the newest record of each key for good, and a null value for 30 days at least. A reader that was away for longer may have missed deletions: it begins at the beginning, with an empty copy.',
      'The other topics keep records for the time that is given, and some hours more. A reader that was away for longer has missed records. Set `auto.offset.reset` so that it notices (`error` or `none`), and set positions yourself when it begins.',
      'A rebuild of an index (`flotilla rebuild vectors`, `relational`) reads the log and writes nothing to it.',
    ],
  },
  {
    title: 'More partitions: epochs',
    rules: [
      '`flotilla topics grow` adds partitions while the platform is stopped; keys may then lie in other partitions than before.',
      'A topic that is not compacted keeps its name, its epoch and its offsets. Read the old partitions to their ends before you read on in any: so the order of each key is kept. A group has no position in the new ones: begin there at the beginning.',
      'A compacted topic gets a new epoch: the newest record of each key that is there, with its headers, is copied to `<topic>.e<epoch>` (`hub.records.e2`), at offsets from 0 on, and the old topic is deleted. What was deleted is not in it, as a null value neither. So positions of another epoch mean nothing: begin at the beginning, with an empty copy. Subjects in the registry keep their names.',
      'Where a topic lives now is in `GET /api/v1/asyncapi.json` (`address` and `x-epoch` of its channel) and in `GET /api/v1/log/topics/{topic}` (`physical_name`, `epoch`). Keep the epoch with your positions, and ask again when the broker does not know the topic. Do not subscribe to a pattern of names: a growth that was interrupted leaves a copy that is not in use.',
    ],
  },
  {
    title: 'What stays as it is',
    rules: [
      'Names, keys, headers and what they mean stay. New topics, headers and fields may come: ignore what you do not know.',
      'Schemas change only so that every version that was ever published reads records of every other: fields come and go with a default, an enum gets symbols where it has a default symbol, and nothing else changes but notes and the order of fields. `npm run schemas:check` refuses any other change of a public topic, so a reader with the schema of its day goes on.',
      'Internal topics may change with any release.',
    ],
  },
]
