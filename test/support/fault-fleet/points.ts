/** Points that one writer for each platform overwrites again and again, and which version each of them may have. */

import { type Client, ProblemError } from '#client/client.ts'
import { axisVector } from '../points.ts'

export interface FleetPoints {
  /** Overwrites the next point of this writer; throws what the client throws. */
  write(writer: string, client: Client): Promise<void>
  question(): { collection: string; vector: number[]; limit: number }
  /** Reads every point and returns the faults. Only while nobody writes. */
  check(client: Client): Promise<string[]>
  acknowledged(): number
}

const collection = 'posts'
const pointsOfWriter = 60
const questions = 16
const readAtOnce = 100

/** Keeps the versions that each point may have: the last acknowledged one, and later ones sent without an answer. */
export function createPoints(): FleetPoints {
  const may = new Map<string, Set<number | null>>()
  let version = 0
  let acknowledged = 0
  return {
    async write(writer, client) {
      const own = ++version
      const id = `${writer}-${own % pointsOfWriter}`
      const before = may.get(id) ?? new Set([null])
      may.set(id, new Set([...before, own]))
      try {
        const point = { id, vector: axisVector(own), payload: { version: own } }
        await client.upsert(collection, [point])
      } catch (error) {
        // It was refused before the log saw it.
        if (error instanceof ProblemError && error.status > 0 && error.status < 500) may.set(id, before)
        throw error
      }
      may.set(id, new Set([own]))
      acknowledged += 1
    },
    question: () => ({ collection, vector: axisVector(version % questions), limit: 3 }),
    async check(client) {
      const ids = [...may.keys()]
      const faults: string[] = []
      for (let from = 0; from < ids.length; from += readAtOnce) {
        const part = ids.slice(from, from + readAtOnce)
        const { points } = await client.getMany(collection, part)
        const found = new Map(points.map(({ id, payload }) => [id, (payload as { version: number }).version]))
        for (const id of part) {
          const read = found.get(id) ?? null
          const allowed = may.get(id) as Set<number | null>
          if (!allowed.has(read)) faults.push(`point ${id} is ${read}, not ${[...allowed].join(' or ')}`)
        }
      }
      return faults
    },
    acknowledged: () => acknowledged,
  }
}
