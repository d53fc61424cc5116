/** Lists the points of a collection, page by page: what the console shows where nothing is asked. */

import { Type } from 'typebox'
import { withoutAuditNotes } from '#client/audit-notes.ts'
import { pieceBytesMax } from '#runtime/http/answers.ts'
import { filterShape, readFilter } from '#services/vectors/accept/filters.ts'
import { findCollection } from '#services/vectors/collections/rows.ts'
import { answeredExpiry, expiryOf, orderBy } from '#services/vectors/gateway/schemas.ts'
import { defineAction } from './action.ts'
import { textField } from './shapes.ts'

const pageMax = 100

export const listPointsAction = defineAction({
  name: 'collections-points',
  summary: 'List the points of a collection, by id or by their last update',
  needs: ['vectors'],
  args: Type.Object({
    collection: textField('A collection.', 'fleet_notes', 64),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: pageMax, description: 'By default 10.' })),
    offset: Type.Optional(textField('`next_offset` of the page before.', 'note-7')),
    order_by: Type.Optional(orderBy),
    filter: Type.Optional(filterShape),
  }),
  async run({ platform: { engines } }, { limit = 10, offset, order_by: order, ...args }) {
    const { name, stored } = await findCollection(engines.relational, args.collection)
    const filter = withoutAuditNotes(name, readFilter(args.filter))
    const { points, next } = await engines.vectors.scroll(stored, {
      limit,
      withPayload: true,
      bytesMax: pieceBytesMax,
      ...(offset === undefined ? {} : { offset }),
      ...(order === undefined ? {} : { updatedAt: order.direction ?? 'asc' }),
      ...(filter === undefined ? {} : { filter }),
    })
    return {
      points: points.map((point) => ({
        id: point.id,
        payload: point.payload ?? {},
        ...expiryOf(point),
      })),
      next_offset: next,
    }
  },
  http: {
    role: 'viewer',
    problems: ['collection_not_found', 'vector_engine_unavailable', 'relational_engine_unavailable'],
    method: 'POST',
    path: '/collections/:collection/points',
    operationId: 'listPoints',
    description:
      'A page may end before `limit`: only `next_offset` says whether there are more. Audit notes are left out as in a search.',
    tag: 'state',
    body: {
      title: 'PointList',
      examples: [{ limit: 5, order_by: { key: 'updated_at', direction: 'desc' } }],
    },
    answer: Type.Object(
      {
        points: Type.Array(
          Type.Object({
            id: Type.String(),
            payload: Type.Record(Type.String(), Type.Unknown()),
            expires_at: answeredExpiry,
          }),
        ),
        next_offset: Type.Union([Type.String(), Type.Null()], {
          description: 'The offset of the next page; null at the end.',
        }),
      },
      { title: 'ListedPoints' },
    ),
  },
})
