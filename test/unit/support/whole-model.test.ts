/** The model of the whole platform finds every kind of wrong log or read, and no fault in right ones. */

import { expect, test } from 'vitest'
import { createHistory, type History, type Read, type Write } from '../../support/whole-history.ts'
import { type Entry, faultsOf } from '../../support/whole-model.ts'

const key = 'posts/k1'

/** An operation id is its number and its last offset in partition 3. */
const parse = (id: string) => {
  const [number, offset] = id.split('@') as [string, string]
  return { number, epoch: 1, last: [{ partition: 3, offset: Number(offset) }] }
}

function write(version: number, given: Partial<Write> = {}): Write {
  const at = version * 100
  return {
    version,
    kind: 'upsert',
    keys: [key],
    gateway: 'g.1',
    begunAt: at,
    endedAt: at + 50,
    outcome: 'acknowledged',
    operation: `o${version}@${version}`,
    ...given,
  }
}

/** Without an answer: no operation id. */
function unanswered(version: number, given: Partial<Write> = {}): Write {
  const { operation: _, ...rest } = write(version, { outcome: 'unanswered', ...given })
  return rest
}

function entry(offset: number, version: number | null, operation = `o${version}`): Entry {
  return { partition: 3, offset, version, operation }
}

function faults(given: Partial<History>, entries: Entry[]): string[] {
  return faultsOf({ history: { ...createHistory(), ...given }, log: new Map([[key, entries]]), parse })
}

const two = [write(1), write(2)]
const inOrder = [entry(1, 1), entry(2, 2)]
const read = (seen: Read['seen'], after = 'o2@2'): Read => ({ what: 'get', key, seen, after, begunAt: 300 })

test('acknowledged records in their order are no fault; nor are records without an answer, wherever they are', () => {
  expect(faults({ writes: two }, inOrder)).toEqual([])
  const maybe = [...two, unanswered(3), unanswered(4, { begunAt: 10, endedAt: 20 })]
  expect(faults({ writes: maybe }, inOrder)).toEqual([])
  expect(faults({ writes: maybe }, [...inOrder, entry(5, 4, 'x'), entry(6, 3, 'x')])).toEqual([])
})

test('an acknowledged write that is not in the log, or not where its operation says, is lost', () => {
  expect(faults({ writes: two }, [entry(2, 2)])).toEqual([expect.stringMatching(/^lost: .* upsert v1 /)])
  expect(faults({ writes: [write(1)] }, [entry(9, 1)])).toEqual([expect.stringMatching(/^lost/)])
})

test('a record that nobody sent is unknown', () => {
  expect(faults({ writes: two }, [...inOrder, entry(3, 7)])).toEqual([expect.stringMatching(/^unknown/)])
  const refused = [...two, write(3, { outcome: 'refused' })]
  expect(faults({ writes: refused }, [...inOrder, entry(3, 3)])).toEqual([expect.stringMatching(/^unknown/)])
  expect(faults({ writes: two }, [...inOrder, entry(3, null)])).toEqual([expect.stringMatching(/^unknown/)])
})

test('a record behind one that began after its answer is late', () => {
  const late = [...inOrder, entry(3, 1, 'o1')]
  expect(faults({ writes: two }, late)).toEqual([expect.stringMatching(/^late: .* upsert v1 .* upsert v2 /)])
  const given = { outcome: 'unavailable' } as const
  const gaveUp = (gateway: string) => [unanswered(1, { ...given, gateway }), write(2)]
  const behind = [entry(2, 2), entry(3, 1, 'x')]
  expect(faults({ writes: gaveUp('g.1') }, behind)).toEqual([expect.stringMatching(/^late/)])
  expect(faults({ writes: gaveUp('g.2') }, behind)).toEqual([])
})

test('a read that is older than its operation is a fault, a newer one is none', () => {
  const writes = [...two, write(3, { kind: 'delete' })]
  const entries = [...inOrder, entry(3, null, 'o3')]
  const good: Read[] = [
    read({ version: 2 }),
    read('missing'),
    read({ other: 2 }),
    read('missing', 'o3@3'),
    read('missing', 'o0@0'),
    read({ version: 1 }, 'o0@0'),
  ]
  expect(faults({ writes, reads: good }, entries)).toEqual([])
  const bad: Read[] = [
    read({ version: 1 }),
    read({ version: 2 }, 'o3@3'),
    read({ version: 9 }),
    read({ other: 1 }, 'o1@1'),
  ]
  for (const one of bad.slice(0, 3)) {
    expect(faults({ writes, reads: [one] }, entries)).toEqual([expect.stringMatching(/^read: get /)])
  }
  expect(faults({ writes: [write(1)], reads: bad.slice(3) }, [entry(1, 1)])).toHaveLength(1)
})
