/**
 * What readers of other systems need to know of all topics alike. docs/topics.md and asyncapi.json are made from it. Texts
 * are Markdown of one line.
 */

import { commonHeaders } from './headers.ts'

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
