/** The points of a collection as JSON lines, for a local index. */

import { Type } from 'typebox'
import type { ScrolledPoint } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { pieceBytesMax } from '#runtime/http/answers.ts'
import { findCollection } from '#services/vectors/collections/rows.ts'
import { defineOperation, type OperationContext } from './operation.ts'

const pagePoints = 200

/** Each item is the text of some whole lines. */
export const exportOperation = defineOperation({
  name: 'export',
  needs: ['vectors'],
  args: Type.Object({ collection: Type.String() }),
  async run(
    { platform, output, signal }: OperationContext<string>,
    { collection },
  ): Promise<{ records: number }> {
    const { vectors, relational } = platform.engines
    const { name, stored } = await findCollection(relational, collection)
    const total = await vectors.count(stored)
    let records = 0
    let next: string | null = null
    do {
      if (signal.aborted) throw new AppError('shutting_down', 'The export was cancelled.')
      const page = await vectors.scroll(stored, {
        limit: pagePoints,
        bytesMax: pieceBytesMax,
        withPayload: true,
        ...(next === null ? {} : { offset: next }),
      })
      await output.item(page.points.map((point) => lineOf(point, name)).join(''))
      records += page.points.length
      next = page.next
      output.progress({ label: 'exporting', done: records, total: Math.max(total, records) })
    } while (next !== null)
    return { records }
  },
})

/**
 * A record of a local index. The id and the collection are the point's own, whatever its payload says; the text that its vector was
 * made of is the body, which such an index searches.
 */
function lineOf({ id, payload = {} }: ScrolledPoint, collection: string): string {
  const { id: _id, collection: _collection, text, ...rest } = payload
  const body = typeof text === 'string' && rest.body === undefined ? { body: text } : { text }
  return `${JSON.stringify({ id, ...body, ...rest, collection })}\n`
}
