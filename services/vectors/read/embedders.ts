/** Says which points have vectors of another embedder than the platform's, and which command makes them again. */

import type { Logger } from 'pino'
import { isReserved, parseStoredName } from '#engines/vectors/collections.ts'
import type { Filter, Hit, VectorStore } from '#engines/vectors/port.ts'
import { counted, plural } from '#lib/plural.ts'

/** Audit notes are always made by the built-in embedder; no command makes them again. */
type Kind = 'points' | 'notes of the hub' | 'audit notes'

function advice(kind: Kind, count: number): string | null {
  if (kind === 'audit notes') return null
  const noun = kind === 'points' ? 'embeddings' : 'notes'
  return `\`flotilla rebuild ${noun}\` makes ${count === 1 ? 'its vector' : 'their vectors'} again.`
}

/** A sentence for each embedder that made some of the hits; none when all of them can be compared with the question. */
export function embedderWarnings(
  collection: string,
  hits: readonly Pick<Hit, 'id' | 'embedder'>[],
  space: string,
): string[] {
  const groups = new Map<string, { embedder: string; kind: Kind; count: number }>()
  for (const { id, embedder } of hits) {
    if (embedder === undefined || embedder === space) continue
    const kind = kindOf(collection, id)
    const key = `${kind}/${embedder}`
    const group = groups.get(key) ?? { embedder, kind, count: 0 }
    groups.set(key, group)
    group.count += 1
  }
  return [...groups.values()].map(({ embedder, kind, count }) => {
    const some = `${count} of ${plural(hits.length, 'hit')}${kind === 'points' ? '' : `, ${kind},`}`
    const [have, scores] =
      count === 1 ? ['has a vector', 'its score says'] : ['have vectors', 'their scores say']
    const made = `${some} ${have} of the embedder ${embedder}, the question has one of ${space}: ${scores} little.`
    return [made, advice(kind, count)].filter(Boolean).join(' ')
  })
}

function kindOf(collection: string, id: string): Kind {
  if (!isReserved(collection, id)) return 'points'
  return id.startsWith('note-') ? 'notes of the hub' : 'audit notes'
}

/** A line in the log for each collection with such points. */
export async function warnOfOthers(
  vectors: Pick<VectorStore, 'stats' | 'embedders'>,
  space: string,
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  for (const { found, advice } of await findOtherEmbedders(vectors, space)) {
    log.warn({ found, advice }, 'vectors.other-embedder')
  }
}

interface OtherPoints {
  /** As callers name it. */
  collection: string
  /** `1,204 points of posts have vectors of the embedder NAME: …` */
  found: string
  advice: string
}

const hubNote = { key: 'tags', match: { value: 'note' } }
const auditNote = { key: 'tags', match: { value: 'auth' } }

/**
 * Counts the points that another embedder than that of `space` made, audit notes left out. A note of the hub without an
 * embedder is of a release that kept none: it counts, too.
 */
export async function findOtherEmbedders(
  vectors: Pick<VectorStore, 'stats' | 'embedders'>,
  space: string,
): Promise<OtherPoints[]> {
  const found: OtherPoints[] = []
  async function look(stored: string, kind: Kind, filter?: Filter): Promise<void> {
    const collection = parseStoredName(stored)?.name ?? stored
    for (const { embedder, points } of await vectors.embedders(stored, filter)) {
      if (embedder === space || (embedder === null && kind === 'points')) continue
      const what = counted(points, kind === 'points' ? 'point' : 'note')
      const where = kind === 'points' ? collection : 'the hub'
      const whose = embedder === null ? 'an embedder that was not kept' : `the embedder ${embedder}`
      const [have, them] = points === 1 ? ['has a vector', 'it'] : ['have vectors', 'them']
      found.push({
        collection,
        found: `${what} of ${where} ${have} of ${whose}, not of ${space}: searches by text find ${them} less well`,
        advice: advice(kind, points)!,
      })
    }
  }
  for (const { collection } of await vectors.stats()) {
    if (collection !== 'fleet_notes') {
      await look(collection, 'points')
      continue
    }
    await look(collection, 'points', { must: [], must_not: [hubNote, auditNote] })
    await look(collection, 'notes of the hub', { must: [hubNote], must_not: [auditNote] })
  }
  return found
}
