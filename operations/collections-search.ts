/** Searches a collection by a text, or by a point that is there: what people look for in the console. */

import { Type } from 'typebox'
import type { Filter, Hit } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { requireCollection } from '#services/vectors/accept/point.ts'
import { filter } from '#services/vectors/gateway/schemas.ts'
import { defineOperation, type OperationContext } from './operation.ts'

/** The filter of a search at the vector gateway. */
export { filter as searchFilter } from '#services/vectors/gateway/schemas.ts'

interface SearchArgs {
  collection: string
  /** Exactly one of them. */
  text?: string
  like?: string
  limit: number
  score_threshold?: number
  filter?: Filter
}

export interface FoundPoints {
  results: Hit[]
  took_ms: number
  records_scanned: number
}

/** Throws AppError `collection_not_found`, `point_not_found`, `embedder_unavailable`, `vector_engine_unavailable`. */
export const searchCollectionOperation = defineOperation({
  name: 'collections-search',
  needs: ['vectors', 'embedder'],
  args: Type.Object({
    collection: Type.String(),
    text: Type.Optional(Type.String()),
    like: Type.Optional(Type.String()),
    limit: Type.Integer({ minimum: 1 }),
    score_threshold: Type.Optional(Type.Number()),
    filter: Type.Optional(filter),
  }),
  async run(context: OperationContext, args): Promise<FoundPoints> {
    const begun = performance.now()
    const collection = requireCollection(args.collection)
    const vector = await vectorOf(context, args)
    const { hits, eligible } = await context.platform.engines.vectors.search(collection, {
      vector,
      limit: args.limit,
      withPayload: true,
      withVector: false,
      ...(args.score_threshold === undefined ? {} : { scoreThreshold: args.score_threshold }),
      ...(args.filter === undefined ? {} : { filter: args.filter }),
    })
    return { results: hits, took_ms: Math.round(performance.now() - begun), records_scanned: eligible }
  },
})

async function vectorOf({ platform }: OperationContext, args: SearchArgs): Promise<Float32Array> {
  const { vectors, embedder } = platform.engines
  if (args.like === undefined) {
    const [vector] = await embedder.embed([args.text ?? ''])
    return vector!
  }
  const [point] = await vectors.get(args.collection, [args.like])
  if (point) return point.vector
  throw new AppError('point_not_found', `${args.collection} has no point of that id.`)
}
