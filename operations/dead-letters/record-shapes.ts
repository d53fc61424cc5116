/** Shapes of dead letters as records: the filter, a letter in a list, and its outcome. */

import { type Static, Type } from 'typebox'
import { orNull, textField, time } from '../shapes.ts'

/** Dead letters that are named one by one at once. */
export const namesMax = 1_000
/** A list over HTTP has the newest. */
export const listedMax = 1_000
/** Letters whose values one answer shows. */
export const shownMax = 20

const topic = textField('A topic.', 'audit.events')
const filterFields = {
  topic: Type.Optional(topic),
  key: Type.Optional(
    textField("A record's key, or the name of one dead letter.", 'vector-writer/3/120', 1_024),
  ),
  group: Type.Optional(textField('The reader group that gave them up.', 'audit-writer')),
}
export const filter = Type.Object(filterFields)
const letterName = Type.Object(
  { topic, key: textField('Its name in the list.', 'audit-writer/3/120', 1_024) },
  { additionalProperties: false },
)
export const treatment = Type.Object({
  ids: Type.Optional(
    Type.Array(letterName, { minItems: 1, maxItems: namesMax, description: 'Exactly these.' }),
  ),
  filter: Type.Optional(
    Type.Object(filterFields, {
      additionalProperties: false,
      minProperties: 1,
      description: 'Instead of ids: all that it means.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Nothing is changed: the answer says which ones are meant.' }),
  ),
})

const letterFields = {
  topic: Type.String(),
  key: Type.String({ description: 'Its name: group, partition and offset of the record.' }),
  group: Type.String(),
  partition: Type.Integer(),
  offset: Type.Integer(),
  epoch: Type.Integer(),
  record_key: orNull(Type.String()),
  value_bytes: orNull(Type.Integer(), 'null: a deletion.'),
  headers: Type.Record(Type.String(), Type.String()),
  reason: Type.String(),
  attempts: Type.Integer(),
  parked_at: time,
}
export const letters = Type.Object(
  {
    dead_letters: Type.Array(Type.Object(letterFields), {
      description: `The newest ${listedMax}, the oldest first.`,
    }),
    count: Type.Integer({ description: 'All that are meant.' }),
  },
  { title: 'DeadLetters' },
)
export const shownLetters = Type.Object(
  {
    dead_letters: Type.Array(
      Type.Object({
        ...letterFields,
        value: Type.Unsafe<unknown>({ description: 'Decoded; of bytes only the size.' }),
        fault: Type.Optional(Type.String({ description: 'Why it could not be decoded.' })),
      }),
    ),
  },
  { title: 'ShownDeadLetters' },
)
export const treated = Type.Object(
  {
    dry_run: Type.Boolean(),
    counts: Type.Object({
      meant: Type.Integer(),
      replayed: Type.Integer(),
      discarded: Type.Integer(),
      refused: Type.Integer(),
      superseded: Type.Integer({
        description: 'Only of a dry run: their keys have later records, so a replay refuses them.',
      }),
      unknown: Type.Integer({
        description: 'Only of a dry run: so much was written since that it was not looked through.',
      }),
    }),
    results: Type.Array(
      Type.Object({
        topic: Type.String(),
        key: Type.String(),
        status: Type.Enum(['meant', 'replayed', 'discarded', 'refused'], { type: 'string' }),
        code: Type.Optional(Type.String({ description: 'Why it was refused.' })),
        message: Type.Optional(Type.String()),
        partition: Type.Optional(Type.Integer({ description: 'Where the replayed record is.' })),
        offset: Type.Optional(Type.Integer()),
      }),
      { description: `At most ${namesMax}; the counts are of all.` },
    ),
  },
  { title: 'TreatedDeadLetters' },
)

export type Treatment = Static<typeof treatment>
export type Treated = Static<typeof treated>
export type Result = Treated['results'][number]
