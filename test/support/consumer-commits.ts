/** Commits of a consumer group on the log in memory, read and made up. */

import { expect } from 'vitest'
import { encodeMetadata } from '#runtime/consume/metadata.ts'
import { createHarness, type Harness, testTopic } from './consumer-harness.ts'
import { createMemoryLog, type MemoryLog } from './memory-log.ts'

/** A log in memory and a topic of two partitions. */
export async function started(cleanup: 'delete' | 'compact' = 'delete', uninitialised = false) {
  const log = createMemoryLog()
  const topic = testTopic(`work-${cleanup}`, cleanup)
  return { log, harness: await createHarness(log, { topic, partitions: 2, uninitialised }) }
}

/** Writes a commit of the group as if an earlier owner had. */
export async function commitAs(
  log: MemoryLog,
  harness: Harness,
  offset: number,
  book: Partial<Parameters<typeof encodeMetadata>[1]>,
): Promise<void> {
  const metadata = encodeMetadata(
    { offset, settled: new Uint8Array(0), attempts: [] },
    {
      progressedAtMs: Date.now(),
      released: false,
      kills: 0,
      isolatedUntil: 0,
      isolated: null,
      owner: 1,
      ...book,
    },
  )
  await commitText(log, harness, offset, metadata)
}

/** Writes a commit with any metadata. */
export async function commitText(
  log: MemoryLog,
  harness: Harness,
  offset: number,
  metadata: string,
): Promise<void> {
  const listener = { assigned: async () => new Map(), lost() {}, records() {}, misplaced() {} }
  const member = await log.consume({ group: 'workers', topic: harness.topic.name, listener })
  log.members.pop()
  await (member as MemoryLog['members'][number]).gain([0])
  expect(await member.commit(0, offset, metadata)).toBe('committed')
  await member.close()
}

export const entries = (count: number, key = 'k') => Array.from({ length: count }, () => ({ key }))
export const isCommitted = (log: MemoryLog, offset: number, partition = 0) =>
  log.commits.some((commit) => commit.partition === partition && commit.offset === offset)
