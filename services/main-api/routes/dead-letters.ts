/** /api/v1/dead-letters: what the workers gave up on; replayed into its topic, or discarded. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import {
  namesMax,
  type RecordLetter,
  recordLetters,
  supersededOperation,
} from '#operations/record-letters.ts'
import { nameOfLetter } from '#runtime/consume/find-superseded.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { name, orNull, time } from '../schemas.ts'

/** Of a list, the newest. */
const listedMax = 1_000
/** Letters whose values one answer shows. */
const shownMax = 20

const topic = name('A topic.', 'audit.events')
const key = name("A record's key, or the name of one dead letter.", 'vector-writer/3/120', 1_024)
const group = name('The reader group that gave them up.', 'audit-writer')

const filterFields = {
  topic: Type.Optional(topic),
  key: Type.Optional(key),
  group: Type.Optional(group),
}
const query = Type.Object(filterFields, closed)
const letterName = Type.Object(
  { topic, key: name('Its name in the list.', 'audit-writer/3/120', 1_024) },
  closed,
)

const treatment = Type.Object(
  {
    ids: Type.Optional(
      Type.Array(letterName, { minItems: 1, maxItems: namesMax, description: 'Exactly these.' }),
    ),
    filter: Type.Optional(
      Type.Object(filterFields, {
        ...closed,
        minProperties: 1,
        description: 'Instead of ids: all that it means.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({ description: 'Nothing is changed: the answer says which ones are meant.' }),
    ),
  },
  {
    ...closed,
    title: 'DeadLetterTreatment',
    examples: [{ filter: { topic: 'audit.events' }, dry_run: true }],
  },
)

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
const letters = Type.Object(
  {
    dead_letters: Type.Array(Type.Object(letterFields), {
      description: `The newest ${listedMax}, the oldest first.`,
    }),
    count: Type.Integer({ description: 'All that are meant.' }),
  },
  { title: 'DeadLetters' },
)
const shownLetters = Type.Object(
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
const treated = Type.Object(
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
type Result = Static<typeof treated>['results'][number]

const problems = ['forbidden', 'not_found', 'log_unavailable', 'registry_unavailable'] as const

export function registerDeadLetters(scope: FastifyInstance, { context }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/dead-letters',
    {
      config: { problems },
      schema: {
        operationId: 'listDeadLetters',
        tags: ['dead letters'],
        summary: 'What the workers gave up on',
        querystring: query,
        response: { 200: letters },
      },
    },
    async (request) => {
      const { dead_letters: found } = await operate(context, request, recordLetters.list, request.query)
      return { dead_letters: found.slice(-listedMax).map(listed), count: found.length }
    },
  )
  routes.get(
    '/dead-letters/show',
    {
      config: { problems },
      schema: {
        operationId: 'showDeadLetters',
        tags: ['dead letters'],
        summary: 'Dead letters with their values, decoded',
        description: `The first ${shownMax} that are meant.`,
        querystring: query,
        response: { 200: shownLetters },
      },
    },
    async (request) => {
      const { dead_letters: meant } = await operate(context, request, recordLetters.list, request.query)
      const names = meant.slice(0, shownMax).map(({ topic, key }) => ({ topic, key }))
      if (names.length === 0) return { dead_letters: [] }
      const { dead_letters: shown } = await operate(context, request, recordLetters.show, { names })
      return {
        dead_letters: shown.map(({ value, fault, ...letter }) => ({
          ...listed(letter),
          value,
          ...(fault === undefined ? {} : { fault }),
        })),
      }
    },
  )
  for (const verb of ['replay', 'discard'] as const) {
    routes.post(
      `/dead-letters/${verb}`,
      {
        config: {
          problems: [...problems, 'dead_letter_not_found', 'conflict', 'relational_engine_unavailable'],
        },
        schema: {
          operationId: verb === 'replay' ? 'replayDeadLetters' : 'discardDeadLetters',
          tags: ['dead letters'],
          summary:
            verb === 'replay'
              ? 'Put records into their topics again, behind what came later'
              : 'Remove them for good',
          body: treatment,
          response: { 200: treated },
        },
      },
      (request) => treat(request, verb, request.body),
    )
  }

  async function treat(request: FastifyRequest, verb: 'replay' | 'discard', body: Treatment) {
    const filter = filterOf(body)
    if (body.dry_run) return tryOut(request, verb, body, filter)
    const { results } = await operate(context, request, recordLetters[verb], filter)
    return outcomeOf([...results, ...missing(body, results)], false)
  }

  async function tryOut(
    request: FastifyRequest,
    verb: 'replay' | 'discard',
    body: Treatment,
    filter: ReturnType<typeof filterOf>,
  ) {
    const { dead_letters: meant } = await operate(context, request, recordLetters.list, filter)
    const { superseded, unknown } = await operate(context, request, supersededOperation, filter)
    const late = new Set(superseded)
    const results = meant.map(({ topic, key }): Result => {
      const isLate = late.has(nameOfLetter({ topic, key }))
      return isLate && verb === 'replay'
        ? { topic, key, status: 'refused', ...supersededFault }
        : { topic, key, status: 'meant' }
    })
    const gone = missing(body, results)
    return outcomeOf([...results, ...gone], true, { superseded: superseded.length, unknown })
  }
}

const supersededFault = {
  code: 'superseded',
  message: 'The key has a later record: discard the dead letter.',
}

/** Throws AppError `validation_failed` where it is not clear which ones are meant. */
function filterOf({ ids, filter }: Treatment) {
  if (ids !== undefined && filter === undefined) return { names: ids }
  if (filter !== undefined && ids === undefined) return filter
  throw validationFailed([{ path: '', message: 'must have either ids or filter' }])
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
): Static<typeof treated> {
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
    results: results.slice(0, namesMax),
  }
}

function listed({ recordKey, valueBytes, parkedAt, ...letter }: RecordLetter) {
  return { ...letter, record_key: recordKey, value_bytes: valueBytes, parked_at: parkedAt }
}
