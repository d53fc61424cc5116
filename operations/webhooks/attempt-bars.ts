/** The attempts of the last hour, minute by minute, for each target: counted as they come, in memory of fixed size. */

import type { WebhookAttempt } from '#schemas/types.ts'

const barMinutes = 60
const minuteMs = 60_000
/** As many as a targets file may name. */
const targetsMax = 1_000

/** How many attempts ended in which way; the oldest minute first, the last one is the present. */
export interface AttemptBars {
  delivered: number[]
  retried: number[]
  dead_letters: number[]
}

const kinds = { success: 'delivered', retry: 'retried', dead_letter: 'dead_letters' } as const

export function createAttemptBars(now: () => number = Date.now) {
  /** Of each target a ring of minutes; `minute` says which one a place holds. */
  const rings = new Map<string, { minute: Float64Array; bars: AttemptBars }>()
  const none = () => new Array<number>(barMinutes).fill(0)

  function ringOf(target: string) {
    const known = rings.get(target)
    if (known || rings.size >= targetsMax) return known
    const bars = { delivered: none(), retried: none(), dead_letters: none() }
    const ring = { minute: new Float64Array(barMinutes), bars }
    rings.set(target, ring)
    return ring
  }
  return {
    take({ target, kind, occurred_at }: Pick<WebhookAttempt, 'target' | 'kind' | 'occurred_at'>): void {
      const name = kinds[kind as keyof typeof kinds]
      const minute = Math.floor(occurred_at / minuteMs)
      const isOld = minute <= Math.floor(now() / minuteMs) - barMinutes
      const ring = name === undefined || isOld ? undefined : ringOf(target)
      if (!ring) return
      const place = minute % barMinutes
      // A later minute has the place already.
      if (ring.minute[place]! > minute) return
      if (ring.minute[place] !== minute) {
        ring.minute[place] = minute
        for (const counts of Object.values(ring.bars)) counts[place] = 0
      }
      ring.bars[name!][place]! += 1
    },
    all(): ({ target: string } & AttemptBars)[] {
      const present = Math.floor(now() / minuteMs)
      return [...rings].map(([target, { minute, bars }]) => {
        const inOrder = (counts: readonly number[]) =>
          Array.from({ length: barMinutes }, (_, at) => {
            const wanted = present - barMinutes + 1 + at
            const place = wanted % barMinutes
            return minute[place] === wanted ? counts[place]! : 0
          })
        return {
          target,
          delivered: inOrder(bars.delivered),
          retried: inOrder(bars.retried),
          dead_letters: inOrder(bars.dead_letters),
        }
      })
    },
  }
}
