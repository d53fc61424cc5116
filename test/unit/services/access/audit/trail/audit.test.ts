/**
 * The two audit records of a request: where they go, what they repeat, what a leaderless partition changes, and how the
 * ends, which nobody waits for, are gathered.
 */

import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { OutgoingMessage } from '#runtime/publish/messages.ts'
import type { AuditEvent } from '#schemas/types.ts'
import { createAuditTrail, createEnds } from '#services/access/audit/trail/audit.ts'

interface Published {
  event: AuditEvent
  eventId: string
  partition: number | undefined
}

const partitions = 12
const own = partitionOf(Buffer.from('whale'), partitions)
const request = { agentId: 'whale', operation: 'search', collection: 'posts', requestId: 'r1', headers: {} }

/** A trail over a log in which some partitions are without a leader. */
function trailOver(away: (partition: number | undefined) => boolean = () => false) {
  const published: Published[] = []
  const tries: (number | undefined)[] = []
  const trail = createAuditTrail({
    publisher: {
      locationOf: ({ name }) => ({ physicalName: name, epoch: 1, partitions }),
      publish: (async (
        _topic: unknown,
        messages: { value: AuditEvent; eventId: string }[],
        options?: { partition?: number },
      ) => {
        tries.push(options?.partition)
        if (away(options?.partition)) throw new AppError('log_unavailable', 'away')
        for (const { value, eventId } of messages) {
          published.push({ event: value, eventId, partition: options?.partition })
        }
        return []
      }) as never,
    },
    onLost() {},
  })
  return { trail, published, tries }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

test('the beginning is acknowledged first; the end repeats its fields, to the same partition, as another event', async () => {
  const { trail, published } = trailOver()
  const entry = trail.begin(request)
  await entry.acknowledged
  expect(published).toHaveLength(1)
  entry.end('ok', 200, 4.5678)
  entry.end('internal_error', 500, 9)
  await trail.close()
  const [begun, ended] = published as [Published, Published]
  expect(published).toHaveLength(2)
  expect(begun.event).toMatchObject({ phase: 'begun', outcome: 'unknown', status_code: null, took_ms: null })
  expect(ended.event).toEqual({
    ...begun.event,
    phase: 'ended',
    outcome: 'ok',
    status_code: 200,
    took_ms: 4.568,
  })
  expect([begun.partition, ended.partition]).toEqual([own, own])
  expect(begun.eventId).not.toBe(ended.eventId)
})

test('when the own partition is without a leader another one takes both records, and the bad one is passed over', async () => {
  const { trail, published, tries } = trailOver((partition) => partition === own)
  const first = trail.begin(request)
  await first.acknowledged
  first.end('ok', 200, 1)
  await trail.begin(request).acknowledged
  await trail.close()
  expect(tries.filter((partition) => partition === own)).toHaveLength(1)
  const [begun, ended] = published.filter((one) => one.event.event_id === published[0]!.event.event_id)
  expect(begun!.partition).not.toBe(own)
  expect(ended!.partition).toBe(begun!.partition)
})

test('when the whole log is away the beginning is refused, and no end is written', async () => {
  const { trail, published } = trailOver(() => true)
  const entry = trail.begin(request)
  await expect(entry.acknowledged).rejects.toMatchObject({ code: 'log_unavailable' })
  entry.end('log_unavailable', 503, 1)
  await trail.close()
  expect(published).toEqual([])
})

test('floods become one summary a minute for an agent, unknown callers together', async () => {
  const { trail, published } = trailOver()
  for (let n = 0; n < 500; n++) trail.refused('whale', 'handshake', 'rate_limited', 429)
  trail.refused('pulse', 'upsert', 'backlog_full', 429)
  trail.refused('pulse', 'handshake', 'rate_limited', 429)
  for (let n = 0; n < 7; n++) trail.refused(null, 'handshake', 'unknown_agent', 401)
  expect(published).toEqual([])
  vi.advanceTimersByTime(60_000)
  trail.refused('whale', 'verify', 'rate_limited', 429)
  await trail.close()
  const summaries = published.map(({ event }) => [
    event.agent_id,
    event.phase,
    event.operation,
    event.outcome,
    event.count,
  ])
  expect(summaries).toEqual([
    ['whale', 'summary', 'handshake', 'rate_limited', 500],
    ['pulse', 'summary', 'several', 'several', 2],
    ['(unknown)', 'summary', 'handshake', 'unknown_agent', 7],
    ['whale', 'summary', 'verify', 'rate_limited', 1],
  ])
})

test('more agents than are counted apart are counted together', async () => {
  const { trail, published } = trailOver()
  for (let n = 0; n < 1_200; n++) trail.refused(`agent-${n}`, 'handshake', 'rate_limited', 429)
  await trail.close()
  expect(published.length).toBe(1_001)
  expect(published.find(({ event }) => event.agent_id === '(unknown)')?.event.count).toBe(200)
})

type EndMessage = OutgoingMessage<string, AuditEvent>
const end = (id: string) => ({ key: 'scout', value: null, eventId: id }) as EndMessage

function harness(publish: (messages: EndMessage[], partition: number | null) => Promise<unknown>) {
  const lost: number[] = []
  const ends = createEnds({ publish, onLost: (count) => lost.push(count) })
  return { ends, lost }
}

describe('ends of audited requests', () => {
  test('of one moment and partition go together, in order', async () => {
    const sent: [number | null, string[]][] = []
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

  test('are bounded while the log does not answer; dropped ones are counted', async () => {
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
