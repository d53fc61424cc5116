/** What people remember and recall by a text, from the command line. */

import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { Type } from 'typebox'
import type { Filter } from '#client/filter.ts'
import { filterWhere, writtenConditions } from '#client/where.ts'
import { isReserved, reservedId } from '#engines/vectors/collections.ts'
import type { Point } from '#engines/vectors/port.ts'
import { microsOf } from '#engines/vectors/values.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { createByteBudget } from '#services/vectors/accept/byte-budget.ts'
import { textCodePointsMax } from '#services/vectors/accept/points.ts'
import { embedTexts } from '#services/vectors/accept/texts.ts'
import { parseUpsert } from '#services/vectors/accept/upsert.ts'
import { findCollection } from '#services/vectors/collections/rows.ts'
import { publishPoints } from '#services/vectors/gateway/routes/writes.ts'
import { expiryOf } from '#services/vectors/gateway/schemas.ts'
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
    expires: Type.Optional(Type.String()),
  }),
  async run({ platform, signal, describe }, { text, payload, expires, id = randomUUID(), ...args }) {
    const { relational, vectors, embedder } = platform.engines
    const named = await findCollection(relational, args.collection ?? usualCollection)
    if (isReserved(named.name, id)) throw reservedId()
    const point = {
      id,
      text,
      ...(payload === undefined ? {} : { payload: payloadOf(payload) }),
      ...(expires === undefined ? {} : { expires_at: laterTime(expires) }),
    }
    const body = { collection: named.name, points: [point] }
    const parsed = parseUpsert(Buffer.from(JSON.stringify(body)))
    await embedTexts(embedder, parsed, createByteBudget().begin(operator.uid))
    const records = { collection: named, ids: parsed.ids, headers: {}, embedder: embedder.space }
    await publishPoints(platform.publisher, records, parsed)
    describe({ after: { id } })
    const stored = JSON.parse(parsed.payloads[0]!) as object
    const expiresAt = parsed.expiries.get(0)
    const isWritten = (point: Point) =>
      point.expiresAt === expiresAt && isDeepStrictEqual(point.payload, stored)
    const end = performance.now() + foundWithinMs
    for (;;) {
      const [found] = await vectors.get(named.stored, [id])
      if (found && isWritten(found)) return { collection: named.name, id, ...expiryOf(found) }
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
        expires: ['time', 'from then on it is not found, and the platform deletes it; default: it stays'],
      },
      example: 'flotilla remember \'The lighthouse is repaired\' --payload \'{"by":"scout"}\'',
      render: ({ collection, id, expires_at: expires }) =>
        `remembered in ${collection} as ${id}${expires === undefined ? '' : `, until ${expires}`}`,
    },
  ],
})

/** The text itself. Throws AppError `bad_request` for one that is no time, and for the past: nothing would be found. */
function laterTime(text: string): string {
  const micros = microsOf(text)
  if (micros !== undefined && micros / 1_000 > Date.now()) return text
  const fault = micros === undefined ? 'no time' : 'in the past'
  throw new AppError(
    'bad_request',
    `--expires is ${JSON.stringify(text)}, ${fault}: give a later one, such as 2030-01-31T12:00:00Z.`,
  )
}

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
              ...(results.some((hit) => hit.expires_at !== undefined) && {
                expires: (hit) => hit.expires_at ?? null,
              }),
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
