/** A topic of a test: one partition, records kept for ever, unless it says otherwise. */

import type { TopicSpec } from '#engines/event-log/port.ts'

export function topicSpec(name: string, changes: Partial<TopicSpec> = {}): TopicSpec {
  return {
    name,
    partitions: 1,
    cleanup: 'delete',
    retentionMs: null,
    tombstoneRetentionMs: 86_400_000,
    segmentBytes: 67_108_864,
    segmentMs: 600_000,
    recordBytesMax: 1_000_000,
    ...changes,
  }
}
