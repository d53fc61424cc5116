/** Searches a collection by a text, or by a point that is there: what people look for in the console. */

import { Type } from 'typebox'
import { withoutAuditNotes } from '#client/audit-notes.ts'
import { AppError } from '#lib/errors.ts'
import { scaleOf } from '#lib/weak-below.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { filterShape, readFilter } from '#services/vectors/accept/filters.ts'
import { textCodePointsMax } from '#services/vectors/accept/points.ts'
import { findCollection } from '#services/vectors/collections/rows.ts'
import { answeredExpiry, expiryOf } from '#services/vectors/gateway/schemas.ts'
import { embedderWarnings } from '#services/vectors/read/embedders.ts'
import { defineAction } from './action.ts'
import type { OperatedPlatform } from './operation.ts'
import { textField } from './shapes.ts'

const hitsMax = 100

export const searchCollectionAction = defineAction({
  name: 'collections-search',
  summary: 'Find the points of a collection that are nearest to a text',
  needs: ['vectors', 'embedder'],
  args: Type.Object({
    collection: textField('A collection.', 'fleet_notes', 64),
    text: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: textCodePointsMax,
        description: "What is looked for; the platform's embedder makes a vector of it.",
      }),
    ),
    like: Type.Optional(
      textField('Instead of a text: the id of a point. Its neighbours are found.', 'note-7'),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: hitsMax, description: 'By default 10.' })),
    score_threshold: Type.Optional(Type.Number({ description: 'Hits below this score are left out.' })),
    filter: Type.Optional(filterShape),
  }),
  async run({ platform }, { text, like, limit = 10, score_threshold: scoreThreshold, ...args }) {
    if ((text === undefined) === (like === undefined)) {
      throw validationFailed([{ path: '', message: 'either text or like' }])
    }
    const begun = performance.now()
    const { name, stored } = await findCollection(platform.engines.relational, args.collection)
    const filter = withoutAuditNotes(name, readFilter(args.filter))
    const { embedder } = platform.engines
    const [vector, weakBelow] = await Promise.all([
      like === undefined
        ? embedder.embed([text ?? '']).then(([made]) => made!)
        : vectorOf(platform, { name, stored }, like),
      // Points like another one are found without an embedder, too.
      scaleOf(embedder).catch(() => undefined),
    ])
    const { hits, eligible } = await platform.engines.vectors.search(stored, {
      vector,
      limit,
      withPayload: true,
      withVector: false,
      ...(scoreThreshold === undefined ? {} : { scoreThreshold }),
      ...(filter === undefined ? {} : { filter }),
    })
    const warnings = like === undefined ? embedderWarnings(name, hits, embedder.space) : []
    return {
      results: hits.map((hit) => {
        const { id, score, payload = {} } = hit
        return { id, score, payload, ...expiryOf(hit) }
      }),
      took_ms: Math.round(performance.now() - begun),
      records_scanned: eligible,
      ...(weakBelow && { weak_below: weakBelow(vector) }),
      ...(warnings.length > 0 && { warnings }),
    }
  },
  http: {
    role: 'viewer',
    problems: [
      'collection_not_found',
      'point_not_found',
      'embedder_unavailable',
      'vector_engine_unavailable',
      'relational_engine_unavailable',
    ],
    method: 'POST',
    path: '/collections/:collection/search',
    operationId: 'searchCollection',
    description:
      'Audit notes are left out of `fleet_notes`, unless the filter asks for the tag `auth` or `vector`, or for an `operation`.',
    tag: 'state',
    body: {
      title: 'CollectionSearch',
      examples: [{ text: 'Where is the courier deployed?', limit: 5 }],
    },
    answer: Type.Object(
      {
        results: Type.Array(
          Type.Object({
            id: Type.String(),
            score: Type.Number({ description: 'Cosine similarity.' }),
            payload: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
            expires_at: answeredExpiry,
          }),
          { description: 'By falling score, ties by id.' },
        ),
        took_ms: Type.Integer(),
        records_scanned: Type.Integer({ description: 'Points that were eligible.' }),
        weak_below: Type.Optional(
          Type.Number({
            description:
              'Hits below this score are weak: texts that have nothing to do with the question may reach it, by the scale of the embedder.',
          }),
        ),
        warnings: Type.Optional(
          Type.Array(Type.String(), {
            description:
              'Of a search by text: hits whose vectors another embedder made, and what to do about it.',
          }),
        ),
      },
      { title: 'FoundPoints' },
    ),
  },
})

async function vectorOf(
  { engines }: OperatedPlatform,
  { name, stored }: { name: string; stored: string },
  id: string,
): Promise<Float32Array> {
  const [point] = await engines.vectors.get(stored, [id])
  if (point) return point.vector
  throw new AppError('point_not_found', `${name} has no point of that id.`)
}
