/** Commits of the same moment share a request; those of different moments, generations or positions never do. */

import { expect, test } from 'vitest'
import { gatherCommits } from '#engines/event-log/kafka/consumer.ts'
import type { Committing } from '#engines/event-log/kafka/groups.ts'
import type { CommittedPosition } from '#engines/event-log/port.ts'

const member = { generation: 3, memberId: 'm' }
const at = (partition: number, offset = 1): CommittedPosition => ({ partition, offset, metadata: '' })

function openCommits(answer: () => Promise<void> = async () => {}) {
  const sent: { generation: number; partitions: number[] }[] = []
  const commit = gatherCommits(async ({ generation }: Committing, positions) => {
    sent.push({ generation, partitions: positions.map(({ partition }) => partition) })
    await answer()
  })
  return { sent, commit }
}

test('commits of one turn go in one request, also those that promises of the turn bring', async () => {
  const { sent, commit } = openCommits()
  const late = Promise.resolve()
    .then(() => {})
    .then(() => commit(member, at(2)))
  await Promise.all([commit(member, at(0)), commit(member, at(1)), late])
  expect(sent).toEqual([{ generation: 3, partitions: [0, 1, 2] }])
  await commit(member, at(0, 2))
  expect(sent).toHaveLength(2)
})

test('another generation, another member and a second position of a partition have requests of their own', async () => {
  const { sent, commit } = openCommits()
  await Promise.all([
    commit(member, at(0)),
    commit({ ...member, generation: 4 }, at(1)),
    commit({ ...member, generation: 4 }, at(1, 2)),
    commit({ generation: 4, memberId: 'other' }, at(2)),
  ])
  expect(sent).toEqual([
    { generation: 3, partitions: [0] },
    { generation: 4, partitions: [1] },
    { generation: 4, partitions: [1] },
    { generation: 4, partitions: [2] },
  ])
})

test('a refused request refuses all of its commits, and none that comes after', async () => {
  const refusals = [new Error('refused')]
  const { commit } = openCommits(async () => {
    const refusal = refusals.shift()
    if (refusal) throw refusal
  })
  const results = await Promise.allSettled([commit(member, at(0)), commit(member, at(1))])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await commit(member, at(0))
})
