/**
 * The consumer runtime: a service joins a consumer group with a handler, the runtime does the rest (reading, retries,
 * commits, dead letters, rebalances). The inside is in runtime/consume/; read member.ts, partition.ts and then one of
 * the two runners.
 */

import type { SchemaName, Topic } from '#topics/topic.ts'
import { readMessage } from '../follow/follow-topic.ts'
import { tracedBatches, tracedLanes } from '../observe/tracing/traced-handlers.ts'
import type { Codec } from '../publish/messages.ts'
import { BatchRunner } from './batch-runner.ts'
import { LaneRunner } from './lane-runner.ts'
import { bufferPart } from './limits.ts'
import { Member } from './member.ts'
import type { Partition } from './partition.ts'
import type { Decode } from './partition-host.ts'
import type { BatchOptions, ConsumerDependencies, LaneOptions, RunningConsumer } from './types.ts'

/** Joins `options.group`, in batch mode. Resolves at once; partitions come when the log assigns them. */
export async function startBatchConsumer<S extends SchemaName>(
  dependencies: ConsumerDependencies,
  options: BatchOptions<S>,
): Promise<RunningConsumer> {
  const { codec, tracing, eventLog } = dependencies
  const traced = tracing?.isOn ? tracedBatches(options, tracing, eventLog.driver) : options
  const member = new Member(dependencies, traced, {
    bufferPart: bufferPart.batches,
    hurries: false,
    createRunner: (host) => new BatchRunner(host, traced, decodeFor(host, codec, options.topic)),
  })
  await member.join()
  return member
}

/** Joins `options.group`, in lane mode. Resolves at once; partitions come when the log assigns them. */
export async function startLaneConsumer<S extends SchemaName>(
  dependencies: ConsumerDependencies,
  options: LaneOptions<S>,
): Promise<RunningConsumer> {
  const { codec, tracing, eventLog } = dependencies
  const traced = tracing?.isOn ? tracedLanes(options, tracing, eventLog.driver) : options
  const member = new Member(dependencies, traced, {
    bufferPart: bufferPart.lanes,
    hurries: true,
    createRunner: (host) => new LaneRunner(host, traced, decodeFor(host, codec, options.topic)),
  })
  options.wakeups?.listen((partition) => member.wake(partition))
  await member.join()
  return member
}

/** While the registry is away a record waits by itself: the others may be of schemas that are known. */
function decodeFor<S extends SchemaName>(host: Partition, codec: Codec, topic: Topic<S>): Decode<S> {
  const parts = { codec, log: host.group.log }
  return (record) => readMessage(parts, topic, record, host.ending)
}

export type {
  BatchOptions,
  CallContext,
  ConsumerDependencies,
  ConsumerOptions,
  LaneOptions,
  ParkedMessage,
  PartitionReading,
  RunningConsumer,
} from './types.ts'
export { LaneWakeups } from './types.ts'
