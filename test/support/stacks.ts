/**
 * One Kafka and one Qdrant for each worker of a run, which its files use one after the other: topics, groups and collections have
 * fixed names, so two files cannot share a broker at the same time. Lives in the process that starts the workers.
 */

import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { type OwnQdrant, openOwnQdrant } from './distributed-qdrant.ts'

export interface StackAddress {
  brokers: string[]
  /** Null where no Qdrant can be had. */
  qdrant: string | null
}

interface Stack {
  kafka: KafkaCluster
  qdrant: OwnQdrant | null
  taken: boolean
}

export interface Stacks {
  /** For one file of this worker, which empties it and gives it back. */
  take(worker: string): Promise<StackAddress>
  giveBack(worker: string): void
  close(): Promise<void>
}

export function createStacks(): Stacks {
  const stacks = new Map<string, Stack>()

  async function open(): Promise<Stack> {
    const [kafka, qdrant] = await Promise.all([openKafkaCluster(1), openOwnQdrant()])
    return { kafka, qdrant, taken: false }
  }
  const end = ({ kafka, qdrant }: Stack) => Promise.all([kafka.close(), qdrant?.kill9()])

  return {
    async take(worker) {
      let stack = stacks.get(worker)
      // A file that did not give it back was killed, and its processes may still run on it.
      if (stack?.taken) await end(stack)
      if (stack === undefined || stack.taken) stack = await open()
      stack.taken = true
      stacks.set(worker, stack)
      return { brokers: stack.kafka.brokers, qdrant: stack.qdrant?.url ?? null }
    },
    giveBack(worker) {
      const stack = stacks.get(worker)
      if (stack) stack.taken = false
    },
    async close() {
      await Promise.all([...stacks.values()].map(end))
    },
  }
}
