/**
 * The order of one partition as its broker enforces it: each batch under an identity (a producer id and its epoch), with the
 * sequence that follows the last one. The caller has one batch under way at a time. Where a batch was given up and nothing
 * followed, the driver appends a fence: once it is in the log, the bytes of that batch are refused. It says nothing, and
 * readers skip it.
 */

import { AppError } from '#lib/errors.ts'
import type { NewRecord } from '../port.ts'
import type { RepeatedCalls } from './calls.ts'
import {
  IdentityRefused,
  type ProduceClient,
  type ProducerIdentity,
  type Sender,
  SendFault,
} from './sender.ts'

/** Marks a fence. Downstream readers that do not use this driver skip records with it. */
export const fenceHeader = 'flotilla-fence'
/** All fences of a partition have this key, so that compaction leaves at most one. */
export const fenceKey = 'flotilla.fence'

/** A null value: on a compacted topic a tombstone. */
export function fenceRecord(): NewRecord {
  return { key: Buffer.from(fenceKey), value: null, headers: { [fenceHeader]: '1' } }
}

export interface PartitionWriterParts {
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

export type PartitionWriter = ReturnType<typeof createPartitionWriter>

export function createPartitionWriter({ topic, partition, sender, identities }: PartitionWriterParts) {
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
    /** Tries once to append a batch; the same batch again after a throw, unless it is given up. */
    async send(records: NewRecord[], bytes: number): Promise<number> {
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
    /** Abandons the batch. None of its records, however late, is appended behind the next append. */
    giveUp(): void {
      if (doubtful) past = identity
      settle()
    },
    /** A batch that was given up may still be appended, until something else is. */
    unresolved: (): boolean => past !== null,
    /** The partition is gone. */
    forget(): void {
      past = null
      settle()
    },
  }
}

export interface Identities {
  /** For a batch that follows acknowledged ones. Throws when no broker answers. */
  current(): Promise<ProducerIdentity>
  /** Once something is appended under what this returns, all bytes under `past` are refused in that partition. */
  after(past: ProducerIdentity): Promise<ProducerIdentity>
}

const epochMax = 32_767
const hour = 3_600_000
/** Brokers forget an id that wrote nothing for a day. */
const idleMsMax = 12 * hour
/** Brokers forget the holder of a transactional id that was not heard of for 7 days, and its epoch in a partition after one. */
const renewEveryMs = 12 * hour
/** Another one has the transactional id, or it is forgotten. */
const fencedTypes = new Set(['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING'])

type Identify = ProduceClient['identify']

/** An id of our own. Its epoch is raised without asking the broker, as only this producer knows the id. */
export function createOwnIdentities(identify: Identify): Identities {
  let latest: ProducerIdentity | null = null
  let usedAt = 0
  let asked: Promise<ProducerIdentity> | undefined

  function current(): Promise<ProducerIdentity> {
    const now = performance.now()
    const worn = latest !== null && (latest.epoch >= epochMax || now - usedAt > idleMsMax)
    usedAt = now
    if (latest && !worn) return Promise.resolve(latest)
    asked ??= identify()
      .then((identity) => {
        latest = identity
        return identity
      })
      .finally(() => {
        asked = undefined
      })
    return asked
  }
  return {
    current,
    async after(past) {
      if (latest?.id === past.id && latest.epoch > past.epoch) return latest
      // The last epoch cannot be followed. It is used only to follow the one before it.
      if (past.epoch >= epochMax) return current()
      const next = { id: past.id, epoch: past.epoch + 1 }
      if (latest?.id === past.id) latest = next
      return next
    },
  }
}

/** The id of a name, which one holder has at a time. Its epoch is the broker's to raise. */
export async function takeIdentities(
  identify: Identify,
  name: string,
  ask: RepeatedCalls['ask'],
): Promise<Identities> {
  const transactionalId = `flotilla-${name}`
  let held = await ask(() => identify(transactionalId))
  let renewedAt = performance.now()
  let asked: Promise<ProducerIdentity> | undefined
  let gone: AppError | undefined

  async function renew(): Promise<ProducerIdentity> {
    if (gone) throw gone
    try {
      held = await identify(transactionalId, held)
      renewedAt = performance.now()
      return held
    } catch (error) {
      if (!(error instanceof IdentityRefused) || !fencedTypes.has(error.type)) throw error
      gone = new AppError('fenced', `Another writer has taken over the name ${name}.`, { cause: error })
      throw gone
    }
  }
  function renewOnce(): Promise<ProducerIdentity> {
    asked ??= renew().finally(() => {
      asked = undefined
    })
    return asked
  }
  return {
    current: async () => (gone || performance.now() - renewedAt > renewEveryMs ? renewOnce() : held),
    after: async (past) => (!gone && (held.id !== past.id || held.epoch > past.epoch) ? held : renewOnce()),
  }
}
