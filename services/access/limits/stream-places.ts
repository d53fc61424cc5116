/** Places for open streams: each caller has a few and an instance some hundred, so that nobody can fill it with streams. */

import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'

/** Nobody knows when a stream ends: a place may be free after this long. */
const retryAfterS = 5

/** A place that is held until it is given back. */
export interface StreamPlace {
  /** Only the first call counts. */
  release(): void
}

export interface StreamPlaces {
  /** Throws AppError `too_many_streams` when the caller, or the instance, has no place left. */
  take(callerUid: string): StreamPlace
  /** Places that are taken. */
  taken(): number
}

export function createStreamPlaces({
  callerMax = budgets.streams.callerMax,
  instanceMax = budgets.streams.interfaceMax,
}: {
  callerMax?: number
  instanceMax?: number
} = {}): StreamPlaces {
  // No more entries than places.
  const byCaller = new Map<string, number>()
  let taken = 0

  return {
    taken: () => taken,
    take(callerUid) {
      const own = byCaller.get(callerUid) ?? 0
      if (own >= callerMax) {
        throw tooMany(`At most ${callerMax} streams of one caller are open at once: close one.`)
      }
      if (taken >= instanceMax) throw tooMany(`This instance has ${instanceMax} open streams already.`)
      byCaller.set(callerUid, own + 1)
      taken += 1
      let held = true
      return {
        release() {
          if (!held) return
          held = false
          taken -= 1
          const left = byCaller.get(callerUid)! - 1
          if (left === 0) byCaller.delete(callerUid)
          else byCaller.set(callerUid, left)
        },
      }
    },
  }
}

function tooMany(message: string): AppError {
  return new AppError('too_many_streams', message, { retryAfter: retryAfterS })
}
