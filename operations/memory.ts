/** What people remember and recall by a text, from the command line. */

import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { Type } from 'typebox'
import type { Filter } from '#client/filter.ts'
import { filterWhere, writtenConditions } from '#client/where.ts'
import { isReserved, reservedId } from '#engines/vectors/collections.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { createByteBudget } from '#services/vectors/accept/byte-budget.ts'
import { parseUpsert, textCodePointsMax } from '#services/vectors/accept/points.ts'
import { embedTexts } from '#services/vectors/accept/texts.ts'
import { findCollection } from '#services/vectors/collections/rows.ts'
import { publishPoints } from '#services/vectors/gateway/routes/writes.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import { searchCollectionAction } from './collections-search.ts'
import { operator } from './operator.ts'

const usualCollection = 'knowledgebase'
const collection = Type.Optional(Type.String({ description: 'a collection' }))
const collectionOption = ['name', `default: ${usualCollection}`] as const
/** How long a command waits for its point to be found. */
const foundWithinMs = 30_000
const pollMs = 50

const rememberAction = defineAction({
  name: 'remember',
  summary: 'Store a text, so that searches by meaning find it',
  change: { action: 'point.write', target: ({ collection = usualCollection }) => collection },
  needs: ['vectors', 'embedder'],
  services: ['vector-writer'],
  args: Type.Object({
    text: Type.String({
      minLength: 1,
      description: 'a text of up to 16,384 characters, or - for the standard input',
    }),
    collection,
    id: Type.Optional(Type.String()),
    payload: Type.Optional(Type.String()),
  }),
  async run({ platform, signal, describe }, { text, payload, id = randomUUID(), ...args }) {
    const { relational, vectors, embedder } = platform.engines
    const named = await findCollection(relational, args.collection ?? usualCollection)
    if (isReserved(named.name, id)) throw reservedId()
    const point = { id, text, ...(payload === undefined ? {} : { payload: payloadOf(payload) }) }
    const body = { collection: named.name, points: [point] }
    const parsed = parseUpsert(Buffer.from(JSON.stringify(body)))
    await embedTexts(embedder, parsed, createByteBudget().begin(operator.uid))
    const records = { collection: named, ids: parsed.ids, headers: {}, embedder: embedder.space }
    await publishPoints(platform.publisher, records, parsed)
    describe({ after: { id } })
    const stored = JSON.parse(parsed.payloads[0]!) as object
    const end = performance.now() + foundWithinMs
    for (;;) {
      const [found] = await vectors.get(named.stored, [id])
      if (found && isDeepStrictEqual(found.payload, stored)) return { collection: named.name, id }
      if (signal.aborted || performance.now() > end) {
        throw new AppError('not_yet_applied', `It is accepted as ${id}, and will be found later.`, {
          retryAfter: 1,
        })
      }
      await sleep(pollMs, signal)
    }
  },
  cli: [
    {
      positional: ['text'],
      standardInput: 'text',
      options: {
        collection: collectionOption,
        id: ['id', 'default: a new one; the same id again replaces the text'],
        payload: ['json', 'an object that says more of it'],
      },
      example: 'flotilla remember \'The lighthouse is repaired\' --payload \'{"by":"scout"}\'',
      render: ({ collection, id }) => `remembered in ${collection} as ${id}`,
    },
  ],
})

function payloadOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new AppError('bad_request', '--payload is no JSON: give an object, such as \'{"by":"scout"}\'.')
  }
}

const recallAction = defineAction({
  name: 'recall',
  summary: 'Find the points of a collection that are nearest to a text',
  needs: ['vectors', 'embedder'],
  args: Type.Object({
    text: Type.String({
      minLength: 1,
      maxLength: textCodePointsMax,
      description: 'a question, or - for the standard input',
    }),
    collection,
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    where: Type.Optional(Type.String()),
  }),
  run(context, { collection = usualCollection, where, ...args }) {
    const filter = where === undefined ? undefined : filterOf(where)
    return searchCollectionAction.run(context, { ...args, collection, ...(filter && { filter }) })
  },
  cli: [
    {
      positional: ['text'],
      standardInput: 'text',
      options: {
        collection: collectionOption,
        limit: ['count', 'at most so many, from 1 to 100; default 10'],
        where: ['conditions', 'key=value, key=a|b, key!=value, key>5, key~words; separated by commas'],
      },
      example: "flotilla recall 'Does the lamp of the tower work?' --where 'by=scout, updated_at>2026-01-01'",
      render: ({ results, warnings = [], weak_below: weakBelow = Number.NEGATIVE_INFINITY }) => [
        results.length === 0
          ? 'nothing is there'
          : tableOf(results, {
              score: ({ score }) => `${score.toFixed(3)}${score < weakBelow ? ' weak' : ''}`,
              id: ({ id }) => id,
              text: ({ payload }) => shownOf(payload),
            }),
        ...warnings,
      ],
    },
  ],
})

function filterOf(where: string): Filter {
  const filter = filterWhere(where)
  if (filter && writtenConditions(where).length === where.split(',').length) return filter
  throw new AppError(
    'bad_request',
    `--where is ${JSON.stringify(where)}: conditions such as 'status=open, n>5'.`,
  )
}

/** The text or title of a point, or else all of its payload. */
function shownOf({ text, title, ...rest }: Record<string, unknown>): string {
  const named = [title, text].filter((one) => typeof one === 'string')
  return named.length > 0 ? named.join(': ') : JSON.stringify(rest)
}

export const memoryActions: readonly Action[] = [rememberAction, recallAction]
