/** `flotilla export`: the points of a collection as JSON lines, for a local index. */

import type { ScrolledPoint } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { defineCommand } from './operation.ts'

const pagePoints = 200

export interface ExportArgs {
  collection: string
  /** Where to go on; absent for the beginning. */
  offset?: string
  /** Stop after the page that passes this. */
  bytesMax?: number
  /** Points before these, for the progress. */
  done: number
}

interface ExportPart {
  points: number
  next: string | null
}

export const exportCommand = defineCommand<ExportArgs, ExportPart>({
  name: 'export',
  needs: ['vectors'],
  async run({ platform, output, signal }, { collection, offset, bytesMax, done }) {
    const { vectors } = platform.engines
    const total = await vectors.count(collection)
    let next = offset ?? null
    let points = 0
    let bytes = 0
    do {
      if (signal.aborted) throw new AppError('shutting_down', 'The export was given up.')
      const page = await vectors.scroll(collection, {
        limit: pagePoints,
        withPayload: true,
        ...(next === null ? {} : { offset: next }),
      })
      const lines = page.points.map((point) => lineOf(point, collection)).join('')
      output.item(lines)
      points += page.points.length
      bytes += lines.length
      next = page.next
      output.progress({ label: 'exporting', done: done + points, total: Math.max(total, done + points) })
    } while (next !== null && (bytesMax === undefined || bytes < bytesMax))
    return { points, next }
  },
})

/** A record of a local index. The id and the collection are the point's own, whatever its payload says. */
function lineOf({ id, payload = {} }: ScrolledPoint, collection: string): string {
  const { id: _id, collection: _collection, ...rest } = payload
  return `${JSON.stringify({ id, ...rest, collection })}\n`
}
