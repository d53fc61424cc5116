/** The dead-letter topic of a topic, and how its records are named. */

import { defineTopic, type Topic } from './topic.ts'

export const deadLetterSuffix = '.dead-letters'

/** The record that a dead letter is about. */
export interface DeadLetterOrigin {
  group: string
  partition: number
  offset: number
  /** Epoch of its topic. */
  epoch: number
}

/** The epoch that the key of a dead letter names. */
export function epochOfLetter(key: string): number {
  return Number(/^[^/]*\/\d+\/\d+\/(\d{1,9})$/.exec(key)?.[1] ?? 1)
}

/** The dead-letter topic of a topic: compacted, keyed by group and origin position. */
export function deadLettersOf(topic: Pick<Topic, 'name' | 'readers'>) {
  return defineTopic({
    name: `${topic.name}${deadLetterSuffix}`,
    purpose: `records of ${topic.name} that a group gave up on, and why; a tombstone when replayed or discarded`,
    keyedBy: 'group and origin position',
    // After `topics grow` offsets start again: then the epoch keeps a new letter from replacing an old one.
    key: ({ group, partition, offset, epoch }: DeadLetterOrigin) =>
      `${group}/${partition}/${offset}${epoch > 1 ? `/${epoch}` : ''}`,
    schema: 'dead-letter',
    partitions: 1,
    cleanup: 'compact',
    writers: topic.readers.flatMap((reader) => ('group' in reader ? [reader.service] : [])),
    readers: [],
  })
}
