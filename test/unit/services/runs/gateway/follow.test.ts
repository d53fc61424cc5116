/** Following gives every durable event once and in order, whatever the log brings, repeats, leaves out or turns around. */

import { describe, expect, it } from 'vitest'
import { pieceBytesMax } from '#runtime/http/answers.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import type { Feed, FeedListener } from '#services/runs/follow/feed.ts'
import { type FollowParts, openFollow } from '#services/runs/follow/follow.ts'
import type { Look, Looks, Subject } from '#services/runs/follow/subjects.ts'
import type { Run, StoredEvent } from '#services/runs/state/types.ts'

/** A tree in memory: its rows, and a log that a test speaks for. */
function createTree() {
  const rows: StoredEvent[] = []
  let ended = false
  let asking: Look['asking'] = []
  let listener: FeedListener = () => {}
  let looker: (look: Look) => void = () => {}
  let reads = 0
  const feed: Feed = {
    subscribe: (_key, hears) => {
      listener = hears
      return () => {
        listener = () => {}
      }
    },
    close: async () => {},
  }
  const looks: Looks = {
    watch: (_key, hears) => {
      looker = hears
      return () => {
        looker = () => {}
      }
    },
    close: async () => {},
  }
  const lookNow = async () => ({ ended, lastEventId: rows.length, asking })
  const subject: Subject<string> = {
    feed: 'r',
    look: { kind: 'tree', id: 'r' },
    seqOf: ({ seq }) => seq,
    statusIn: ({ status }) => status,
    endsWith: (record) => record.tree_ended,
    shows: (runId) => runId !== 'hidden',
    async eventsAfter(after, limit) {
      reads += 1
      return rows.slice(after, after + limit)
    },
    hasFrom: async (seq) => rows.length >= seq,
    lookNow,
    readEnded: async () => ({ value: 'the end', lastEventId: rows.length }),
    readAsking: async (runId) => ({ runId }) as Run,
  }
  const record = (fields: Partial<RunEventRecord>): RunEventRecord => ({
    run_id: 'r',
    root_run_id: 'r',
    goal_id: null,
    attempt: 1,
    seq: null,
    goal_seq: null,
    event: null,
    status: null,
    tree_ended: false,
    last_seq: null,
    goal_status: null,
    ...fields,
  })
  return {
    parts: { feed, looks } as FollowParts,
    subject,
    /** Commits an event and gives its record. */
    commit(runId = 'r'): RunEventRecord {
      const seq = rows.length + 1
      rows.push({ seq, runId, event: { id: `${seq}`, author: 'A', invocationId: runId, timestamp: 1 } })
      return record({ run_id: runId, seq, event: JSON.stringify(rows.at(-1)!.event) })
    },
    rows,
    commitLong(text: string): void {
      this.commit()
      rows.at(-1)!.event.content = { parts: [{ text }] }
    },
    partial: (text: string, fields: Partial<RunEventRecord> = {}) =>
      record({ event: JSON.stringify(text), ...fields }),
    end(): RunEventRecord {
      ended = true
      return record({
        tree_ended: true,
        status: 'completed',
        last_seq: Math.random() < 0.5 ? rows.length : null,
      })
    },
    /** Runs of it ask, each by its attempt; none: they were answered. */
    asks(...asked: [string, number][]): RunEventRecord {
      asking = asked.map(([runId, attempt]) => ({ runId, question: `${runId}.${attempt}` }))
      return record({ status: 'input_required' })
    },
    hear: (heard: RunEventRecord) => listener(heard, false),
    hearLocally: (heard: RunEventRecord) => listener(heard, true),
    look: async () => looker(await lookNow()),
    reads: () => reads,
  }
}

type Tree = ReturnType<typeof createTree>

/** Follows in the background. */
function following(
  { parts, subject }: Tree,
  options: { after?: number; fresh?: boolean; untilAsked?: boolean } = {},
) {
  const stop = new AbortController()
  const follow = openFollow(parts, subject)
  const seen: (number | string)[] = []
  const over = (async () => {
    const events = follow.events({ after: 0, fresh: true, signal: stop.signal, ...options })
    for (;;) {
      const { done, value } = await events.next()
      if (done) return value?.read()
      if ('readAsking' in value) seen.push(`${(await value.readAsking()).runId} asks`)
      else seen.push(value.seq ?? JSON.parse(value.json))
    }
  })()
  return { seen, over, stop: () => stop.abort() }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('following', () => {
  it('takes news as they come, and reads no rows for them', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    tree.hear(tree.partial('a'))
    tree.hear(tree.commit())
    await turn()
    expect(seen).toEqual(['a', 1])
    tree.hear(tree.commit())
    tree.hear(tree.end())
    expect(await over).toBe('the end')
    expect(seen).toEqual(['a', 1, 2])
    expect(tree.reads()).toBe(0)
  })

  it('gives the pieces that have come, though a look at the rows finds the end first', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    const [piece, whole, end] = [tree.partial('a'), tree.commit(), tree.end()]
    for (const one of [piece, tree.partial('b'), whole, end]) tree.hear(one)
    await tree.look()
    expect(await over).toBe('the end')
    expect(seen).toEqual(['a', 'b', 1])
  })

  it('ends with a question where that is wanted', async () => {
    const tree = createTree()
    const { seen, over } = following(tree, { untilAsked: true })
    tree.commit()
    tree.hear(tree.asks(['r', 1]))
    expect(await over).toEqual({ runId: 'r' })
    expect(seen).toEqual([1])
  })

  it('else gives each question once and goes on, with news of it or without', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    tree.commit()
    tree.hear(tree.asks(['r', 1]))
    await turn()
    for (const n of [1, 2]) {
      await tree.look()
      await turn()
      expect([n, seen]).toEqual([n, [1, 'r asks']])
    }
    tree.asks()
    tree.commit()
    await tree.look()
    await turn()
    tree.asks(['r', 2])
    await tree.look()
    await turn()
    tree.end()
    await tree.look()
    expect(await over).toBe('the end')
    expect(seen).toEqual([1, 'r asks', 2, 'r asks'])
  })

  it('gives the questions of several runs, each once', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    tree.hear(tree.asks(['a', 1], ['b', 1]))
    await turn()
    tree.hear(tree.asks(['b', 1], ['c', 1]))
    await tree.look()
    await turn()
    tree.asks(['b', 1], ['a', 2])
    await tree.look()
    await turn()
    tree.end()
    await tree.look()
    await over
    expect(seen).toEqual(['a asks', 'b asks', 'c asks', 'a asks'])
  })

  it('reads missing events, and takes none twice', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    const [one, two, three] = [tree.commit(), tree.commit(), tree.commit()]
    tree.hear(three)
    tree.hear(one)
    tree.hear(two)
    await turn()
    tree.hear(three)
    tree.hear(tree.commit())
    tree.hear(tree.end())
    await over
    expect(seen).toEqual([1, 2, 3, 4])
  })

  it('takes what this process publishes at once, and not once more from the log', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    const piece = tree.partial('a')
    const event = tree.commit()
    tree.hearLocally(piece)
    tree.hearLocally(event)
    await turn()
    expect(seen).toEqual(['a', 1])
    tree.hear(piece)
    tree.hear(event)
    // Its next attempt is another process's.
    const again = tree.partial('b', { attempt: 2 })
    tree.hear(again)
    tree.hear(tree.end())
    await over
    expect(seen).toEqual(['a', 1, 'b'])
    expect(tree.reads()).toBe(0)
  })

  it('ends only behind the last event, when the end comes before it', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    const late = tree.commit()
    tree.hear(tree.end())
    expect(await over).toBe('the end')
    tree.hear(late)
    expect(seen).toEqual([1])
  })

  it('is finished by looks alone when the log is silent', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    for (let n = 0; n < 40; n++) tree.commit()
    await tree.look()
    await turn()
    tree.commit()
    tree.end()
    await tree.look()
    expect(await over).toBe('the end')
    expect(seen).toEqual(Array.from({ length: 41 }, (_, n) => n + 1))
  })

  it('begins behind an event, also of an ended run', async () => {
    const tree = createTree()
    for (let n = 0; n < 20; n++) tree.commit()
    tree.end()
    const { seen, over } = following(tree, { after: 17, fresh: false })
    await over
    expect(seen).toEqual([18, 19, 20])
  })

  it('a flood that nobody takes is read from the rows', async () => {
    const tree = createTree()
    const follow = openFollow(tree.parts, tree.subject)
    for (let n = 0; n < 1_000; n++) tree.hear(tree.commit())
    tree.hear(tree.end())
    const seen: (number | null)[] = []
    for await (const one of follow.events({
      after: 0,
      fresh: true,
      signal: new AbortController().signal,
    })) {
      if ('seq' in one) seen.push(one.seq)
    }
    expect(seen).toEqual(Array.from({ length: 1_000 }, (_, n) => n + 1))
  })

  it('leaves out hidden events, and pieces of an earlier attempt', async () => {
    const tree = createTree()
    const { seen, over } = following(tree)
    tree.hear(tree.partial('old', { attempt: 1 }))
    tree.hear(tree.partial('new', { attempt: 2 }))
    tree.hear(tree.partial('void', { attempt: 1 }))
    tree.hear(tree.commit('hidden'))
    tree.hear(tree.partial('hidden', { run_id: 'hidden' }))
    tree.hear(tree.commit())
    tree.hear(tree.end())
    await over
    expect(seen).toEqual(['old', 'new', 2])
  })

  it('ends when it is stopped', async () => {
    const tree = createTree()
    const { over, stop } = following(tree)
    stop()
    expect(await over).toBeUndefined()
  })

  it('any order, loss and repetition: 1..n exactly once', async () => {
    for (let round = 0; round < 200; round++) {
      const tree = createTree()
      const { seen, over } = following(tree)
      const heard: RunEventRecord[] = []
      const count = 1 + (round % 30)
      for (let n = 0; n < count; n++) {
        const made = tree.commit(Math.random() < 0.2 ? 'other' : 'r')
        if (Math.random() < 0.8) heard.splice(Math.floor(Math.random() * (heard.length + 1)), 0, made)
        if (Math.random() < 0.3) heard.push(made)
        while (heard.length > 0 && Math.random() < 0.6) tree.hear(heard.shift() as RunEventRecord)
        if (Math.random() < 0.2) await tree.look()
        if (Math.random() < 0.5) await turn()
      }
      const end = tree.end()
      if (Math.random() < 0.5) tree.hear(end)
      for (const late of heard) tree.hear(late)
      await turn()
      await tree.look()
      expect(await over).toBe('the end')
      expect(seen).toEqual(Array.from({ length: count }, (_, n) => n + 1))
    }
  })
})

it('reads on behind a read that ended by its bytes', async () => {
  const tree = createTree()
  const long = 'x'.repeat(pieceBytesMax)
  for (let n = 0; n < 5; n++) tree.commitLong(long)
  tree.subject.eventsAfter = async (after) => tree.rows.slice(after, after + 1)
  // No news and no look come: what a short read leaves would wait for them.
  const { seen, over, stop } = following(tree, { fresh: false })
  for (let n = 0; n < 100 && seen.length < 5; n++) await turn()
  expect(seen).toEqual([1, 2, 3, 4, 5])
  stop()
  await over
})
