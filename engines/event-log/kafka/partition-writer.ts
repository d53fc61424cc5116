/**
 * The order of one partition as its broker enforces it: each batch under an identity, with the sequence that follows the last
 * one. The caller has one batch under way at a time. Where a batch was given up and nothing followed, the driver appends a
 * fence: once it is in the log, the bytes of that batch are refused. It says nothing, and readers skip it.
 */

import type { NewRecord } from '../port.ts'
import type { Identities } from './identities.ts'
import { type ProducerIdentity, type Sender, SendFault } from './sender.ts'

/** Marks a fence. Downstream readers that do not use this driver skip records with it. */
export const fenceHeader = 'flotilla-fence'
/** All fences of a partition have this key, so that compaction leaves at most one. */
export const fenceKey = 'flotilla.fence'

/** A null value: on a compacted topic a tombstone. */
export function fenceRecord(): NewRecord {
  return { key: Buffer.from(fenceKey), value: null, headers: { [fenceHeader]: '1' } }
}

export interface PartitionWriter {
  /** Tries once to append a batch; the same batch again after a throw, unless it is given up. */
  send(records: NewRecord[], bytes: number): Promise<number>
  /** The batch is not tried any more. Nothing of it, however late, is appended behind what is appended next. */
  giveUp(): void
  /** A batch that was given up may still be appended, until something else is. */
  unresolved(): boolean
  /** The partition is gone. */
  forget(): void
}

interface PartitionWriterParts {
  topic: string
  partition: number
  sender: Sender
  identities: Identities
}

const sequences = 2 ** 31
/** The broker's state of this producer is not what we think: a new epoch begins at 0 again. */
const lostSequence = new Set([
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'UNKNOWN_PRODUCER_ID',
  'INVALID_PRODUCER_EPOCH',
])

export function createPartitionWriter({
  topic,
  partition,
  sender,
  identities,
}: PartitionWriterParts): PartitionWriter {
  let identity: ProducerIdentity | null = null
  let sequence = 0
  /** Only a later epoch may follow. */
  let past: ProducerIdentity | null = null
  /** The batch under way has its identity and sequence, and keeps both. */
  let placed = false
  let tried = false
  /** A try of the batch under way may have stored it, or may still. */
  let doubtful = false

  async function place(): Promise<ProducerIdentity> {
    const next = past ? await identities.after(past) : await identities.current()
    if (next.id !== identity?.id || next.epoch !== identity.epoch) sequence = 0
    identity = next
    placed = true
    return next
  }
  function settle(): void {
    placed = false
    tried = false
    doubtful = false
  }
  return {
    async send(records, bytes) {
      const under = placed && identity ? identity : await place()
      const again = tried
      tried = true
      try {
        const batch = { topic, partition, records, sequence, identity: under, bytes, again }
        const offset = await sender.send(batch)
        sequence = (sequence + records.length) % sequences
        past = null
        settle()
        return offset
      } catch (error) {
        if (!(error instanceof SendFault)) throw error
        if (lostSequence.has(error.type ?? '')) {
          past = under
          placed = false
        } else if (!error.refused) doubtful = true
        throw error
      }
    },
    giveUp() {
      if (doubtful) past = identity
      settle()
    },
    unresolved: () => past !== null,
    forget() {
      past = null
      settle()
    },
  }
}
