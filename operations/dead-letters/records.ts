/** Dead letters of every topic, as records: which ones are meant, how one is replayed, and what a trial says. */

import { type Static, Type } from 'typebox'
import { invalidField } from '#lib/errors.ts'
import { findSuperseded, nameOfLetter, replayDeadLetter } from '#runtime/consume/dead-letter-replay.ts'
import {
  type DeadLetterParts,
  type ListedDeadLetter,
  listDeadLetters,
} from '#runtime/consume/dead-letters.ts'
import { showRecord } from '#runtime/follow/show-record.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { ChangeContext } from '../change.ts'
import { findTopic } from '../find-topic.ts'
import { orNull, textField, time } from '../shapes.ts'
import { openDeliveryReplay } from '../webhooks/delivery-letters.ts'
import { deadLetterParts, discardLetters, type LetterKind, type Replay, replayLetters } from './letters.ts'

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

type Treatment = Static<typeof treatment>
type Treated = Static<typeof treated>
type Result = Treated['results'][number]

type RecordLetter = Omit<ListedDeadLetter, 'parkedAt'> & { parkedAt: string }
type Name = { topic: string; key: string }
type Decoded = { value: unknown; fault?: string }

export interface RecordFilter {
  topic?: string
  key?: string
  group?: string
  names?: Name[]
}

export const records: LetterKind<RecordFilter, RecordLetter, Name, Decoded> = {
  name: 'dead-letters',
  list: listRecordLetters,
  originOf: (letter) => letter,
  nameOf: ({ topic, key }) => ({ topic, key }),
  shownMax: Number.POSITIVE_INFINITY,
  async show({ codec }, { topic, partition, offset, headers, value, recordKey }) {
    const record = { partition, offset, headers, value, timestamp: 0, key: Buffer.from(recordKey ?? '') }
    const { value: shown, fault } = await showRecord(codec, findTopic(topic), record)
    return fault === undefined ? { value: shown } : { value: shown, fault }
  },
  async openReplay(platform) {
    let deliveries: Promise<Replay> | undefined
    return async (letter) => {
      if (letter.topic !== webhooksDeliveries.name) return replayDeadLetter(deadLetterParts(platform), letter)
      // The partition of a delivery is its target's, not its key's.
      deliveries ??= openDeliveryReplay(platform)
      return (await deliveries)(letter)
    }
  },
}

/** What the audit calls those that are meant. */
export function targetOf({ ids = [], filter = {} }: Treatment): string {
  const [only, ...more] = ids
  if (only) return more.length === 0 ? `${only.topic}/${only.key}` : only.topic
  return [filter.topic ?? 'all topics', ...(filter.key === undefined ? [] : [filter.key])].join('/')
}

export async function treatLetters(
  context: ChangeContext,
  verb: 'replay' | 'discard',
  asked: Treatment,
): Promise<Treated> {
  const wanted = filterOf(asked)
  if (asked.dry_run) return tryOut(context, verb, asked, wanted)
  const { results } = await (verb === 'replay' ? replayLetters : discardLetters)(records, context, wanted)
  return outcomeOf([...results, ...missing(asked, results)], false)
}

async function tryOut(
  { platform }: ChangeContext,
  verb: 'replay' | 'discard',
  asked: Treatment,
  wanted: RecordFilter,
): Promise<Treated> {
  const parts = deadLetterParts(platform)
  const meant = await listRecordLetters(parts, wanted)
  const { superseded, unknown } = await findSuperseded(parts, meant)
  const results = meant.map(({ topic, key }): Result => {
    const isLate = superseded.has(nameOfLetter({ topic, key }))
    return isLate && verb === 'replay'
      ? { topic, key, status: 'refused', ...supersededFault }
      : { topic, key, status: 'meant' }
  })
  return outcomeOf([...results, ...missing(asked, results)], true, { superseded: superseded.size, unknown })
}

const supersededFault = {
  code: 'superseded',
  message: 'The key has a later record: discard the dead letter.',
}

/** Throws AppError `validation_failed` where it is not clear which ones are meant. */
function filterOf({ ids, filter }: Treatment): RecordFilter {
  if (ids !== undefined && filter === undefined) return { names: ids }
  if (filter !== undefined && ids === undefined) return filter
  throw invalidField('', 'must have either ids or filter')
}

/** Those of the ids that are gone. */
function missing({ ids = [] }: Treatment, results: readonly Result[]): Result[] {
  const found = new Set(results.map(({ topic, key }) => `${topic} ${key}`))
  return ids
    .filter(({ topic, key }) => !found.has(`${topic} ${key}`))
    .map(({ topic, key }) => ({
      topic,
      key,
      status: 'refused',
      code: 'dead_letter_not_found',
      message: 'It was replayed or discarded already, or there never was one.',
    }))
}

function outcomeOf(
  results: readonly Result[],
  dryRun: boolean,
  found = { superseded: 0, unknown: 0 },
): Treated {
  const count = (status: Result['status']) => results.filter((one) => one.status === status).length
  return {
    dry_run: dryRun,
    counts: {
      meant: results.length,
      replayed: count('replayed'),
      discarded: count('discarded'),
      refused: count('refused'),
      ...found,
    },
    results: [...results],
  }
}

export function listed({ recordKey, valueBytes, parkedAt, ...letter }: RecordLetter) {
  return { ...letter, record_key: recordKey, value_bytes: valueBytes, parked_at: parkedAt }
}

export async function listRecordLetters(
  parts: DeadLetterParts,
  { group, names, ...filter }: RecordFilter,
): Promise<RecordLetter[]> {
  const listed = names ? await listNamed(parts, names) : await listDeadLetters(parts, filter)
  return listed
    .filter((letter) => group === undefined || letter.group === group)
    .map(({ parkedAt, ...letter }) => ({ ...letter, parkedAt: parkedAt.toISOString() }))
}

async function listNamed(
  parts: DeadLetterParts,
  names: readonly { topic: string; key: string }[],
): Promise<ListedDeadLetter[]> {
  const found: ListedDeadLetter[] = []
  for (const [topic, own] of Map.groupBy(names, (name) => name.topic)) {
    const keys = new Set(own.map(({ key }) => key))
    found.push(...(await listDeadLetters(parts, { topic })).filter(({ key }) => keys.has(key)))
  }
  return found.sort((a, b) => a.parkedAt.getTime() - b.parkedAt.getTime())
}
