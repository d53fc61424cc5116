/** Changes payloads of the same points from several sides, and compares them with the acknowledged changes. */

import { expect } from 'vitest'
import type { Client } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { axisVector } from './points.ts'

const collection = 'knowledgebase'
const ids = ['shared-0', 'shared-1']
const changersCount = 3
/** Each sets its own keys in turn, to rising numbers. */
const keysEach = 20

export async function startChangers(client: Client) {
  await client.upsert(
    collection,
    ids.map((id, n) => ({ id, vector: axisVector(n), payload: {} })),
    { wait: true },
  )
  let isOver = false
  let changes = 0
  /** Key → the last number that was acknowledged. */
  const acknowledged = new Map<string, number>()
  const changer = async (name: string) => {
    for (let n = 0; !isOver; n++) {
      const key = `${name}-${n % keysEach}`
      try {
        await client.setPayload(collection, ids, { set: { [key]: n } }, { wait: true })
        acknowledged.set(key, n)
        changes++
      } catch {
        // It may be written all the same.
        await sleep(100)
      }
    }
  }
  const running = Array.from({ length: changersCount }, (_, n) => changer(`c${n}`))
  return {
    async expectAll(): Promise<number> {
      isOver = true
      await Promise.all(running)
      const { points } = await client.getMany(collection, ids)
      expect(points.length).toBe(ids.length)
      for (const { payload } of points) {
        const lost = [...acknowledged].filter(([key, n]) => !(Number(payload[key]) >= n))
        expect(lost).toEqual([])
      }
      return changes
    },
  }
}
