/** Writer names: taking one over shuts out its former holder, including appends in flight. */

import { describe, expect, test } from 'vitest'
import type { FencedWriter } from '#engines/event-log/port.ts'
import { numbered, range, readAll, record, values, type World } from './world.ts'

export function describeFencedWriters(world: World): void {
  describe('fenced writers', () => {
    test('a holder appends as the log itself does', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2, recordBytesMax: 100_000 })
      const writer = await log.fencedWriter(world.name('writer'))
      expect(await writer.append(topic, 1, numbered(2))).toBe(0)
      expect(await log.append(topic, 1, numbered(1, 2))).toBe(2)
      expect(await writer.append(topic, 1, numbered(1, 3))).toBe(3)
      expect(await writer.append(topic, 1, [])).toBe(4)
      await expect(writer.append(topic, 2, numbered(1))).rejects.toMatchObject({ code: 'not_found' })
      const large = [record('k', 'x'.repeat(200_000))]
      await expect(writer.append(topic, 1, large)).rejects.toMatchObject({ code: 'payload_too_large' })
      expect(await writer.append(topic, 1, numbered(1, 4))).toBe(4)
      expect(values(await readAll(log, topic))).toEqual(range(0, 5).map(String))
      await writer.close()
    })

    test('concurrent appends of a holder keep the order of their calls', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      const writer = await log.fencedWriter(world.name('writer'))
      const calls = range(0, 100).map((i) => writer.append(topic, 0, numbered(1, i), { timeoutMs: 20_000 }))
      expect(await Promise.all(calls)).toEqual(range(0, 100))
      expect(values(await readAll(log, topic))).toEqual(range(0, 100).map(String))
    })

    test('where the new holder has appended the earlier one is refused for good; other names are not', async () => {
      const [one, two] = [await world.client(), await world.client()]
      const topic = await world.topic(one)
      const [name, other] = [world.name('writer'), await one.fencedWriter(world.name('writer'))]
      const former = await one.fencedWriter(name)
      await former.append(topic, 0, [record('k', 'former')])
      await other.append(topic, 0, [record('k', 'other')])
      const next = await two.fencedWriter(name)
      await next.append(topic, 0, [record('k', 'next')])
      for (const _ of range(0, 2)) {
        const late = former.append(topic, 0, [record('k', 'late')])
        await expect(late).rejects.toMatchObject({ code: 'fenced' })
      }
      await other.append(topic, 0, [record('k', 'other')])
      await one.append(topic, 0, [record('k', 'plain')])
      await next.append(topic, 0, [record('k', 'next')])
      expect(values(await readAll(one, topic))).toEqual(['former', 'other', 'next', 'other', 'plain', 'next'])
    })

    test('when two take a name at once, the later one has it', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      const name = world.name('writer')
      const first = await log.fencedWriter(name)
      const second = await log.fencedWriter(name)
      const third = await log.fencedWriter(name)
      await third.append(topic, 0, [record('k', 'third')])
      for (const writer of [first, second]) {
        await expect(writer.append(topic, 0, numbered(1))).rejects.toMatchObject({ code: 'fenced' })
      }
      expect(values(await readAll(log, topic))).toEqual(['third'])
    })

    test('appends under way are refused behind those of the new holder', async () => {
      const [one, two] = [await world.client(), await world.client()]
      const topic = await world.topic(one, { partitions: 3 })
      const name = world.name('writer')
      const former = await one.fencedWriter(name)
      const outcomes: Promise<boolean>[] = []
      let stopped = false
      const writing = (async () => {
        for (let i = 0; !stopped; i++) {
          outcomes.push(stored(former, topic, i % 3))
          if (i % 20 === 19) await Promise.race(outcomes.slice(-20))
        }
      })()
      await Promise.all(range(0, 3).map((partition) => former.append(topic, partition, numbered(1))))
      const next = await two.fencedWriter(name)
      const firsts = await Promise.all(
        range(0, 3).map((partition) => next.append(topic, partition, [record('k', 'next')])),
      )
      stopped = true
      await writing
      const results = await Promise.all(outcomes)
      const all = await readAll(one, topic)
      for (const { partition, offset, value } of all) {
        if (value?.toString() === 'former') expect(offset).toBeLessThan(firsts[partition]!)
      }
      const kept = all.filter(({ value }) => value?.toString() === 'former').length
      expect(kept).toBeGreaterThanOrEqual(results.filter((was) => was).length)
    })
  })
}

/** True when it was acknowledged, false when it was refused because another one has the name. */
async function stored(writer: FencedWriter, topic: string, partition: number): Promise<boolean> {
  try {
    await writer.append(topic, partition, [record('k', 'former')], { timeoutMs: 20_000 })
    return true
  } catch (error) {
    expect(error).toMatchObject({ code: 'fenced' })
    return false
  }
}
