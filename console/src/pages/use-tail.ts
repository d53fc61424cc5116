/** Reads the tail of a topic into a list of bounded length that changes a few times a second, however much comes. */

import { useEffect, useRef, useState } from 'react'
import { asProblem, type Problem } from '../data/problem.ts'
import { streamEvents } from '../data/stream.ts'

/** As the main API describes it. */
export interface TailedRecord {
  partition: number
  offset: number
  timestamp: string
  key: string | null
  headers: Record<string, string>
  value: unknown
  /** It is shown for so many. */
  of: number
  cut?: { length: number }
  fault?: string
}

const keptMax = 200
const paintEveryMs = 250

interface Tailing {
  /** The newest first. */
  records: readonly TailedRecord[]
  /** That came while it was paused. */
  waiting: number
  skipped: number
  isConnected: boolean
  /** It is not tried again. */
  isRefused: boolean
  problem: Problem | null
}

const nothing: Tailing = {
  records: [],
  waiting: 0,
  skipped: 0,
  isConnected: false,
  isRefused: false,
  problem: null,
}

/** A page that nobody sees keeps no connection; it goes on without a gap when it is seen again. */
export function useTail(path: string, isPaused: boolean): Tailing {
  const [tailing, setTailing] = useState(nothing)
  const buffer = useRef<TailedRecord[]>([])
  const paused = useRef(isPaused)
  paused.current = isPaused

  useEffect(() => {
    let last: string | undefined
    let stop: (() => void) | undefined
    let skipped = 0
    const change = (changes: Partial<Tailing>) => setTailing((before) => ({ ...before, ...changes }))
    buffer.current = []
    setTailing(nothing)

    async function read(signal: AbortSignal) {
      const onState = (problem: Problem | null) => change({ problem, isConnected: problem === null })
      for await (const { event, id, data } of streamEvents({ path, signal, lastEventId: last, onState })) {
        last = id ?? last
        if (event === undefined) buffer.current.push(data as TailedRecord)
        else if (event === 'skipped') skipped += (data as { records: number }).records
        if (buffer.current.length > keptMax) buffer.current.splice(0, buffer.current.length - keptMax)
      }
    }
    function follow() {
      if (document.hidden) {
        stop?.()
        stop = undefined
        change({ isConnected: false })
      } else if (!stop) {
        const controller = new AbortController()
        stop = () => controller.abort()
        read(controller.signal).catch((error) => {
          if (!controller.signal.aborted)
            change({ problem: asProblem(error), isConnected: false, isRefused: true })
        })
      }
    }
    const painting = setInterval(() => {
      setTailing((before) => painted(before, buffer.current, paused.current, skipped))
    }, paintEveryMs)
    follow()
    document.addEventListener('visibilitychange', follow)
    return () => {
      document.removeEventListener('visibilitychange', follow)
      clearInterval(painting)
      stop?.()
    }
  }, [path])
  return tailing
}

/** The same object when nothing came, so that nothing is drawn. */
function painted(before: Tailing, buffer: TailedRecord[], isPaused: boolean, skipped: number): Tailing {
  if (isPaused) {
    return before.waiting === buffer.length && before.skipped === skipped
      ? before
      : { ...before, waiting: buffer.length, skipped }
  }
  if (buffer.length === 0) {
    return before.skipped === skipped && before.waiting === 0 ? before : { ...before, skipped, waiting: 0 }
  }
  const fresh = buffer.splice(0).reverse()
  return { ...before, records: [...fresh, ...before.records].slice(0, keptMax), waiting: 0, skipped }
}
