/** Who gets which partition, and what a member keeps through a rebalance. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createOwnedPartitions } from '#engines/event-log/kafka/consumer.ts'
import {
  assignReleased,
  decodeAssignment,
  encodeAssignments,
  encodeClaim,
} from '#engines/event-log/kafka/groups.ts'
import { assignSticky, type Claim } from '#engines/event-log/membership.ts'

const claim = (memberId: string, generation: number, ...partitions: number[]): Claim => ({
  memberId,
  generation,
  partitions,
})
const range = (count: number) => Array.from({ length: count }, (_, i) => i)

describe('sticky assignment', () => {
  test('a second member takes half; the first keeps the rest', () => {
    const shares = assignSticky([claim('a', 3, 0, 1, 2, 3), claim('b', 0)], range(4))
    expect(shares.get('a')).toEqual([0, 1])
    expect(shares.get('b')).toEqual([2, 3])
  })

  test('of two claims for a partition the younger one wins', () => {
    const shares = assignSticky([claim('old', 2, 0, 1), claim('new', 5, 0, 1)], range(4))
    expect(shares.get('new')).toEqual([0, 1])
    expect(shares.get('old')).toEqual([2, 3])
  })

  test('every partition has one owner, shares are even, and nothing moves that need not', () => {
    const claims = fc
      .array(fc.tuple(fc.nat(3), fc.array(fc.nat(15), { maxLength: 12 })), { minLength: 1, maxLength: 6 })
      .map((list) => list.map(([generation, own], i) => claim(`m${i}`, generation, ...new Set(own))))
    fc.assert(
      fc.property(claims, fc.nat(12), (members, count) => {
        const shares = assignSticky(members, range(count))
        expect([...shares.values()].flat().toSorted((a, b) => a - b)).toEqual(range(count))
        const sizes = [...shares.values()].map((own) => own.length)
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
        const again = assignSticky(
          [...shares].map(([memberId, own]) => claim(memberId, 9, ...own)),
          range(count),
        )
        for (const [memberId, own] of shares) {
          expect(again.get(memberId)!.toSorted()).toEqual(own.toSorted())
        }
      }),
    )
  })
})

describe('owned partitions', () => {
  const joined = (generation: number, ...partitions: number[]) => ({
    generation,
    memberId: 'm',
    partitions,
    again: false,
  })

  test('from one generation to the next, what stays is the same ownership', () => {
    const partitions = createOwnedPartitions()
    partitions.take(joined(4, 0, 1))
    const kept = partitions.get(0)!
    const { gained, lost } = partitions.take(joined(5, 0, 2))
    expect(gained.map((owned) => owned.partition)).toEqual([2])
    expect(lost).toEqual([1])
    expect(partitions.holds(kept)).toBe(true)
  })

  test('a partition that moves is owned until it is released, and not claimed afterwards', () => {
    const partitions = createOwnedPartitions()
    partitions.take(joined(4, 0, 1))
    const before = partitions.get(1)!
    const { lost, revoked } = partitions.take({ ...joined(5, 0), again: true })
    expect({ lost, revoked, held: partitions.holds(before) }).toEqual({ lost: [], revoked: [1], held: true })
    expect(partitions.member()!.generation).toBe(5)
    expect(partitions.release([1, 7])).toEqual([1])
    expect(partitions.claim()).toEqual({ generation: 5, partitions: [0] })
  })

  test('a generation that was missed, or a group that began from scratch: everything was lost in between', () => {
    for (const next of [6, 1]) {
      const partitions = createOwnedPartitions()
      partitions.take(joined(4, 0))
      const before = partitions.get(0)!
      const { gained, lost } = partitions.take({ ...joined(next, 0), again: true })
      expect([gained.length, lost]).toEqual([1, [0]])
      expect(partitions.holds(before)).toBe(false)
    }
  })
})

describe('handing on', () => {
  const claimsOf = fc
    .array(fc.tuple(fc.nat(3), fc.array(fc.nat(11), { maxLength: 12 })), { minLength: 1, maxLength: 5 })
    .map((list) => list.map(([generation, own], i) => claim(`m${i}`, generation, ...new Set(own))))

  test('nobody gets what another member still claims; once all have joined again, everything has an owner', () => {
    fc.assert(
      fc.property(claimsOf, fc.nat(12), (claims, count) => {
        const first = assignReleased(claims, range(count))
        for (const [memberId, own] of first.shares) {
          const others = claims.filter((one) => one.memberId !== memberId).flatMap((one) => one.partitions)
          const mine = claims.find((one) => one.memberId === memberId)!.partitions
          for (const partition of own)
            expect(others.includes(partition) && !mine.includes(partition)).toBe(false)
        }
        const joined = [...first.shares].map(([memberId, own]) => claim(memberId, 9, ...own))
        const second = assignReleased(joined, range(count))
        expect(second.again).toBe(false)
        expect([...second.shares.values()].flat().toSorted((a, b) => a - b)).toEqual(range(count))
        if (!first.again) expect(second.shares).toEqual(first.shares)
      }),
    )
  })

  test('claims and assignments are read as they were written; a claim in no known form claims nothing', () => {
    const members = [
      { memberId: 'a', metadata: encodeClaim('t', { generation: 3, partitions: [0, 1, 2, 3] }) },
      { memberId: 'b', metadata: Buffer.from([0, 1]) },
    ]
    const [a, b] = encodeAssignments('t', members, range(4)).assignments.map(({ assignment }) =>
      decodeAssignment('t', assignment),
    )
    expect([a, b]).toEqual([
      { partitions: [0, 1], again: true },
      { partitions: [], again: true },
    ])
  })

  test('a leader whose broker knows only some of the partitions, or none, takes nothing from anybody', () => {
    const metadata = encodeClaim('t', { generation: 3, partitions: [0, 1, 2] })
    for (const known of [[], [0]]) {
      const { assignments, total } = encodeAssignments('t', [{ memberId: 'a', metadata }], known)
      expect(decodeAssignment('t', assignments[0]!.assignment).partitions).toEqual([0, 1, 2])
      expect(total).toBe(3)
    }
  })
})
