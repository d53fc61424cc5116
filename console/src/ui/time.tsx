/** Times: relative while they are young, else local; UTC in the tooltip. */

import { useSyncExternalStore } from 'react'
import { duration, localTime } from '../data/format.ts'

const listeners = new Set<() => void>()
let ticking: ReturnType<typeof setInterval> | undefined
let now = Date.now()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  ticking ??= setInterval(() => {
    now = Date.now()
    for (const one of listeners) one()
  }, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(ticking)
    ticking = undefined
  }
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}

export function Ago({ at }: { at: string | null }) {
  const present = useNow()
  if (at === null) return <span className="dim">never</span>
  const ageS = (present - Date.parse(at)) / 1_000
  return (
    <time dateTime={at} title={at}>
      {ageS < 3_600 ? (ageS < 1.5 ? 'just now' : `${duration(ageS)} ago`) : localTime(at)}
    </time>
  )
}

export function Time({ at }: { at: string | null }) {
  if (at === null) return <span className="dim">–</span>
  return (
    <time dateTime={at} title={at}>
      {localTime(at)}
    </time>
  )
}
