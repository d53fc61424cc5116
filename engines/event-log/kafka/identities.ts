/** Under which producer id and epoch batches are written, and what follows when one of them is given up. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { logUnavailable } from '../faults.ts'
import { IdentityRefused, type ProduceClient, type ProducerIdentity } from './sender.ts'

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
const takeTimeoutMs = deadlines.engine.logAdminMs
const takePause = { baseMs: 50, maxMs: 500 }
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
export async function takeIdentities(identify: Identify, name: string): Promise<Identities> {
  const transactionalId = `flotilla-${name}`
  let held = await persist(() => identify(transactionalId))
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

/** Tries again while no broker answers, up to a limit. */
async function persist<T>(work: () => Promise<T>): Promise<T> {
  const end = performance.now() + takeTimeoutMs
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > end) throw logUnavailable(error)
      await sleep(backoffMs(tries, takePause))
    }
  }
}
