/** A member of a consumer group, as the port wants it: kafkajs's rebalances and resets come in, none of them goes out. */

import type { Batch, Kafka } from 'kafkajs'
import type { Logger } from 'pino'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type {
  CommitResult,
  CommittedPosition,
  ConsumerListener,
  GainedPartition,
  GroupConsumer,
  PartitionRange,
} from '../port.ts'
import { faultType } from './faults.ts'
import { type MemberHandlers, type MemberOptions, startMember } from './member.ts'
import { createPlaces, type Place } from './places.ts'
import { storedRecord } from './record.ts'

export interface ConsumerParts {
  kafka: Kafka
  log: Logger
  offsets(): Promise<PartitionRange[]>
  committed(): Promise<CommittedPosition[]>
  isCompacted(): Promise<boolean>
}

export interface KafkaGroupConsumer extends GroupConsumer {
  /** The next offset of every owned partition that is being read. */
  positions(): Map<number, number>
}

const metadataBytesMax = 4_096
const commitTimeoutMs = 5_000
const retryPause = { baseMs: 100, maxMs: 2_000 }

export function openConsumer(
  options: MemberOptions,
  listener: ConsumerListener,
  parts: ConsumerParts,
): KafkaGroupConsumer {
  const { log } = parts
  const places = createPlaces()
  let lastHeartbeat = 0
  let compacted: boolean | undefined
  let closed = false
  let waiting: Place[] = []

  const of = (place: Place) => [{ topic: options.topic, partitions: [place.partition] }]
  const silence = (place: Place) => member.act((consumer) => consumer.pause(of(place)))
  function read(place: Place): void {
    const { partition, position } = place
    member.act((consumer) => {
      if (position === null) return consumer.pause(of(place))
      consumer.seek({ topic: options.topic, partition, offset: String(position) })
      if (place.paused) consumer.pause(of(place))
      else consumer.resume(of(place))
    })
  }
  function startAt(place: Place, position: number): void {
    place.position = position
    read(place)
  }
  function report(lost: number[]): void {
    waiting = waiting.filter((place) => places.holds(place))
    if (lost.length > 0 && !closed) listener.lost(lost)
  }

  /** Tries until it succeeds or none of the partitions is owned any more. */
  async function insist(
    owned: Place[],
    what: string,
    work: (owned: Place[]) => Promise<void>,
  ): Promise<void> {
    for (let failures = 0; !closed; failures++) {
      const still = owned.filter((place) => places.holds(place))
      if (still.length === 0) return
      try {
        return await work(still)
      } catch (error) {
        log.warn(
          { group: options.group, topic: options.topic, error: describeError(error) },
          `${what}: trying again`,
        )
        await sleep(backoffMs(failures, retryPause))
      }
    }
  }
  async function prepare(gained: Place[], former: GainedPartition['former']): Promise<void> {
    const [ranges, committed] = await Promise.all([parts.offsets(), parts.committed()])
    compacted ??= await parts.isCompacted()
    const rangeOf = new Map(ranges.map((range) => [range.partition, range]))
    const missing = gained.find((place) => !rangeOf.has(place.partition))
    if (missing) throw new Error(`the offsets of partition ${missing.partition} are not known yet`)
    const still = gained.filter((place) => places.holds(place))
    if (still.length === 0 || closed) return
    const told = still.map(({ partition }) => ({
      ...rangeOf.get(partition)!,
      committed: committed.find((one) => one.partition === partition) ?? null,
      former,
    }))
    const starts = await listener.assigned(told)
    for (const place of still) {
      const start = starts.get(place.partition)
      if (start === undefined || !places.holds(place) || place.position !== null) continue
      const range = rangeOf.get(place.partition)!
      if (start >= range.start && start <= range.end) startAt(place, start)
      else check(place, start)
    }
  }
  /** The log may have moved since it was asked: only a position that is outside now is reported. */
  function check(place: Place, position: number, sure = false): void {
    place.position = null
    silence(place)
    void insist([place], 'asking for the offsets of a partition', async () => {
      const range = (await parts.offsets()).find((one) => one.partition === place.partition)
      if (!range) throw new Error('the partition is not known yet')
      if (closed || !places.holds(place) || place.position !== null) return
      const { start, end } = range
      if (!sure && position >= start && position <= end) startAt(place, position)
      else listener.misplaced(place.partition, { position, start, end })
    })
  }

  const handlers: MemberHandlers = {
    claim: places.claim,
    assigned(joined, at) {
      lastHeartbeat = at
      const { gained, lost } = places.take(joined)
      waiting.push(...gained)
      for (const place of gained) silence(place)
      report(lost)
    },
    heartbeat(at) {
      lastHeartbeat = at
    },
    joined() {
      for (const place of places.all()) read(place)
      const gained = waiting.splice(0)
      // In a group's first generation nobody was there before; later somebody may have been, and may still work.
      const former = places.member()?.generation === 1 ? 'none' : 'unknown'
      if (gained.length > 0) void insist(gained, 'taking over partitions', (still) => prepare(still, former))
    },
    batch(batch) {
      const place = places.get(batch.partition)
      if (!place || place.position === null) return
      const { position } = place
      const from = Number((batch as Batch & { fetchedOffset: string }).fetchedOffset)
      const gap = compacted === false && Number(batch.firstOffset()) > position
      if (from > position || gap) return check(place, position, gap)
      // An older fetch may still arrive after a seek: what lies below was read.
      const last = Number(batch.lastOffset())
      if (last < position) return
      place.position = last + 1
      const records = []
      for (const message of batch.messages) {
        if (from >= position || Number(message.offset) >= position)
          records.push(storedRecord(batch.partition, message))
      }
      if (records.length > 0) listener.records(batch.partition, records)
    },
    skipped(partition, first, last) {
      const place = places.get(partition)
      if (!place || place.position === null) return
      if (last >= place.position && (first ?? last) <= place.position) place.position = last + 1
    },
    outOfRange(partition) {
      const place = places.get(partition)
      if (place && place.position !== null) check(place, place.position)
    },
    ended: () => report(places.clear()),
  }
  const member = startMember(parts.kafka, options, handlers, log)

  async function commit(partition: number, offset: number, metadata: string): Promise<CommitResult> {
    if (Buffer.byteLength(metadata) > metadataBytesMax) {
      throw new AppError('validation_failed', `Commit metadata holds at most ${metadataBytesMax} bytes.`)
    }
    // Ownership and generation are those of one assignment: both are read in this tick, and sent as they are.
    const place = places.get(partition)
    const [joined, membership] = [places.member(), member.membership()]
    if (closed || !place || !joined || !membership) return 'lost'
    try {
      const committing = membership.commit(joined, partition, offset, metadata)
      await withTimeout(committing, commitTimeoutMs, () => new Error('no answer in time'))
      return 'committed'
    } catch (error) {
      const owned = !closed && places.holds(place)
      log.debug(
        { group: options.group, partition, error: faultType(error) ?? describeError(error) },
        'commit refused',
      )
      return owned ? 'again' : 'lost'
    }
  }
  return {
    assignment: () => places.all().map(({ partition }) => partition),
    positions: () =>
      new Map(
        places.all().flatMap(({ partition, position }) => (position === null ? [] : [[partition, position]])),
      ),
    commit,
    pause(partition) {
      const place = places.get(partition)
      if (!place) return
      place.paused = true
      silence(place)
    },
    resume(partition) {
      const place = places.get(partition)
      if (!place) return
      place.paused = false
      if (place.position !== null) member.act((consumer) => consumer.resume(of(place)))
    },
    seek(partition, offset) {
      const place = places.get(partition)
      if (place) startAt(place, offset)
    },
    alive: () =>
      !closed && places.member() !== undefined && Date.now() - lastHeartbeat < options.sessionTimeoutMs,
    async close() {
      closed = true
      places.clear()
      await member.close()
    },
  }
}
