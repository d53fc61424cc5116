/** Times: relative while they are young, else local; UTC in the tooltip. */

import { useSyncExternalStore } from 'react'
import { duration, localTime, momentOf } from '../data/format.ts'

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

function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}

/** Text in the form of ISO, or milliseconds. */
interface TimeProps {
  at: string | number | null
}

export function Ago({ at }: TimeProps) {
  const present = useNow()
  if (at === null) return <span className="dim">never</span>
  const date = momentOf(at)
  if (date === null) return <Unknown at={at} />
  const ageS = (present - date.getTime()) / 1_000
  const iso = date.toISOString()
  return (
    <time dateTime={iso} title={iso}>
      {ageS < 3_600 ? (ageS < 1.5 ? 'just now' : `${duration(ageS)} ago`) : localTime(at)}
    </time>
  )
}

export function Time({ at }: TimeProps) {
  if (at === null) return <span className="dim">–</span>
  const iso = momentOf(at)?.toISOString()
  if (iso === undefined) return <Unknown at={at} />
  return (
    <time dateTime={iso} title={iso}>
      {localTime(at)}
    </time>
  )
}

function Unknown({ at }: { at: string | number }) {
  return (
    <span className="dim" title={String(at)}>
      {localTime(at)}
    </span>
  )
}
