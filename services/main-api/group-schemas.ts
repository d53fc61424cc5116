/** What the main API answers of reader groups: how far they are, and how fast they go. */

import { Type } from 'typebox'
import { orNull, time } from './schemas.ts'

const perSecond = (description: string) =>
  orNull(Type.Number(), `${description} a second, over the last two minutes; null: not known yet.`)
const pace = {
  behind_s: orNull(
    Type.Number(),
    'How long the oldest record that waits has waited; null: nothing waits, or it is not known yet.',
  ),
  in_per_s: perSecond('Records that come'),
  out_per_s: perSecond('Records that are read'),
  clears_in_s: orNull(
    Type.Number(),
    'When nothing will wait if it goes on like this, of a group the slowest partition; null: nothing waits, it does not fall, or it is not known yet.',
  ),
}
const groupFields = {
  group: Type.String({ description: 'The same before and after a rebuild.' }),
  group_id: Type.String({ description: 'As the log knows it.' }),
  topic: Type.String(),
  state: Type.Enum(['reading', 'idle', 'stuck', 'away'], {
    type: 'string',
    description:
      'reading: it has something left; idle: it has not; stuck: a record does not get through; away: it has no members.',
  }),
  members: Type.Integer(),
  lag: Type.Integer({ description: 'Over all partitions: end − max(committed, start).' }),
  expired: Type.Integer({
    description: 'Records that were gone from the log before the group read them; not in the lag.',
  }),
  ...pace,
}
const partitionLag = Type.Object({
  partition: Type.Integer(),
  committed: orNull(Type.Integer(), 'The next offset to be read; null: none was ever committed.'),
  start: Type.Integer(),
  end: Type.Integer(),
  lag: Type.Integer(),
  expired: Type.Integer({
    description:
      'Records between committed and start: gone from the log before the group read them. Kafka’s own tool counts them as lag.',
  }),
  owner: orNull(Type.String(), 'The client that reads it now; null: none does.'),
  ...pace,
})
const stuckRecord = Type.Object({}, { additionalProperties: true })
export const groups = Type.Object(
  { groups: Type.Array(Type.Object(groupFields)), as_of: time },
  { title: 'ReaderGroups' },
)
export const group = Type.Object(
  {
    ...groupFields,
    partitions: Type.Array(partitionLag),
    stuck: Type.Array(stuckRecord, {
      description: 'Records that the writer of an index cannot get through.',
    }),
    as_of: time,
  },
  { title: 'ReaderGroup' },
)
