/** The ends of audited requests, which nobody waits for, are gathered and written in order. */

import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createEnds, type EndMessage } from '../../../../../../services/access/audit/trail/ends.ts'

const end = (id: string) => ({ key: 'scout', value: null, eventId: id }) as EndMessage

function harness(publish: (messages: EndMessage[], partition: number) => Promise<unknown>) {
  const lost: number[] = []
  const ends = createEnds({ publish, onLost: (count) => lost.push(count) })
  return { ends, lost }
}

describe('ends of audited requests', () => {
  test('of one moment and partition go together, in order', async () => {
    const sent: [number, string[]][] = []
    const { ends } = harness(async (messages, partition) => {
      sent.push([partition, messages.map((message) => message.eventId!)])
    })
    for (const [partition, id] of [
      [1, 'a'],
      [2, 'b'],
      [1, 'c'],
    ] as const)
      ends.add(partition, end(id))
    expect(sent).toEqual([])
    await ends.flush()
    expect(sent).toEqual([
      [1, ['a', 'c']],
      [2, ['b']],
    ])
  })

  test('go by themselves after some tenths of a second, all that came meanwhile together', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const sent: number[] = []
    const { ends } = harness(async (messages) => sent.push(messages.length))
    ends.add(0, end('a'))
    await vi.advanceTimersByTimeAsync(60)
    ends.add(0, end('b'))
    await vi.advanceTimersByTimeAsync(1_000)
    expect(sent).toEqual([2])
  })

  test('are bounded while the log does not answer; what is given up is counted', async () => {
    let fail: (error: Error) => void = () => {}
    const stuck = new Promise<never>((_, reject) => {
      fail = reject
    })
    const { ends, lost } = harness(() => stuck)
    for (let i = 0; i < 20_010; i++) ends.add(0, end(String(i)))
    expect(lost).toEqual(Array.from({ length: 10 }, () => 1))
    const flushed = ends.flush()
    fail(new Error('away'))
    await flushed
    expect(lost.reduce((sum, count) => sum + count, 0)).toBe(20_010)
  })
})
