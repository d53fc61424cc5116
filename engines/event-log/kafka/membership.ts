/**
 * A consumer's membership as its broker connections show it: when an assignment arrives (before kafkajs acts on it),
 * when a heartbeat was answered, and commits under exactly the generation that is asked for.
 *
 * kafkajs reports a new assignment late, and without its generation; commits under whatever generation it has by
 * then; retries `commitOffsets` under later ones; and when a position has expired, commits "the beginning" or "the
 * end" over it and reads on from there. It hands its connections to partition assigners, so each of them is watched
 * here: the four calls that matter pass through, and its own commits go nowhere.
 */

import kafkajs, { type Broker, type Cluster } from 'kafkajs'
import { gatherCommits } from './commits.ts'
import { faultType } from './faults.ts'
import { quickenFetches } from './fetch-response.ts'

interface GroupBroker {
  nodeId: number | string
  joinGroup(request: unknown): Promise<unknown>
  syncGroup(request: { generationId: number; memberId: string }): Promise<{ memberAssignment: Buffer }>
  heartbeat(request: { groupGenerationId: number }): Promise<unknown>
  offsetCommit(request: OffsetCommit): Promise<unknown>
}

interface OffsetCommit {
  groupId: string
  groupGenerationId: number
  memberId: string
  topics: { topic: string; partitions: { partition: number; offset: string; metadata?: string }[] }[]
}

const coordinatorAway: ReadonlySet<string> = new Set([
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'GROUP_LOAD_IN_PROGRESS',
  'NETWORK_EXCEPTION',
  'REQUEST_TIMED_OUT',
])

export interface Joined {
  generation: number
  memberId: string
  partitions: number[]
}

export interface MembershipListener {
  /** The coordinator has answered with an assignment; kafkajs does not know it yet. `at` is when it was asked. */
  assigned(joined: Joined, at: number): void
  /** A heartbeat that was sent at `at` was accepted. */
  heartbeat(at: number): void
  /** kafkajs wanted to forget the position outside of a partition's log: nothing was committed. */
  outOfRange(partition: number): void
}

export interface Membership {
  commit(member: Joined, partition: number, offset: number, metadata: string): Promise<void>
  /** A consumer that was disconnected while it joined goes on all the same: from now on it reaches no broker. */
  end(): void
}

export function watchMembership(
  cluster: Cluster,
  names: { group: string; topic: string },
  listener: MembershipListener,
): Membership {
  const originals = new WeakMap<Broker, GroupBroker['offsetCommit']>()
  let coordinator: string | undefined
  let over = false

  const findBroker = cluster.findBroker.bind(cluster)
  cluster.findBroker = async (node) => {
    if (over) throw new Error('this consumer has ended')
    const broker = await findBroker(node)
    if (!originals.has(broker)) watch(broker)
    return broker
  }
  const findGroupCoordinator = cluster.findGroupCoordinator.bind(cluster)
  cluster.findGroupCoordinator = (named) => findGroupCoordinator(named).catch(throwAsMoved)
  function watch(watched: Broker): void {
    // The types of kafkajs describe its public interface, and these calls are not in it.
    const broker = watched as unknown as GroupBroker
    originals.set(watched, broker.offsetCommit.bind(broker))
    quickenFetches(watched)
    const joinGroup = broker.joinGroup.bind(broker)
    broker.joinGroup = (request) => joinGroup(request).catch(throwAsMoved)
    const syncGroup = broker.syncGroup.bind(broker)
    broker.syncGroup = async (request) => {
      const at = Date.now()
      const response = await syncGroup(request).catch(throwAsMoved)
      coordinator = String(broker.nodeId)
      const { generationId: generation, memberId } = request
      listener.assigned({ generation, memberId, partitions: partitionsIn(response.memberAssignment) }, at)
      return response
    }
    const heartbeat = broker.heartbeat.bind(broker)
    broker.heartbeat = async (request) => {
      if (over) throw new Error('this consumer has ended')
      const at = Date.now()
      const response = await heartbeat(request).catch(throwAsMoved)
      listener.heartbeat(at)
      return response
    }
    broker.offsetCommit = async (request) => {
      for (const { partitions } of request.topics) {
        for (const { partition } of partitions) listener.outOfRange(partition)
      }
    }
  }
  /**
   * The coordinator is away, or loads the group: said in the words by which kafkajs looks for the coordinator and joins
   * again as the same member. Otherwise it repeats a heartbeat on the dead connection, or gives the member up.
   */
  function throwAsMoved(error: unknown): never {
    const type = faultType(error)
    if (over || (type !== null && !coordinatorAway.has(type))) throw error
    const moved = new Error('the coordinator of the group is away')
    throw Object.assign(moved, { type: 'NOT_COORDINATOR_FOR_GROUP', retriable: true, cause: error })
  }
  function partitionsIn(assignment: Buffer): number[] {
    return kafkajs.AssignerProtocol.MemberAssignment.decode(assignment)?.assignment[names.topic] ?? []
  }
  const commit = gatherCommits<Joined>(async ({ generation, memberId }, partitions) => {
    if (coordinator === undefined) throw new Error('no coordinator yet')
    try {
      const broker = await cluster.findBroker({ nodeId: coordinator })
      await originals.get(broker)!({
        groupId: names.group,
        groupGenerationId: generation,
        memberId,
        topics: [{ topic: names.topic, partitions }],
      })
    } catch (error) {
      if (faultType(error) === 'NOT_COORDINATOR_FOR_GROUP' || faultType(error) === null)
        await findCoordinator()
      throw error
    }
  })
  return {
    end() {
      over = true
    },
    commit: (member, partition, offset, metadata) =>
      commit(member, { partition, offset: String(offset), metadata }),
  }
  async function findCoordinator(): Promise<void> {
    const found = await cluster.findGroupCoordinator({ groupId: names.group }).catch(() => null)
    // As in `watch`.
    if (found) coordinator = String((found as unknown as GroupBroker).nodeId)
  }
}
