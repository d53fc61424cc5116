/** The events of a run or a dispatch, and of all that joined, as they come, until it has ended. */

import { useEffect, useState } from 'react'
import { asProblem, type Problem } from '../data/problem.ts'
import { streamEvents } from '../data/stream.ts'

/** An event of Google ADK, as far as the page shows it. */
export interface RunEvent {
  /** Its number in the run of the first message, or in the dispatch. */
  number: string
  author: string
  /** The id of its run. */
  invocationId: string
  /** Seconds. */
  timestamp: number
  content?: { parts?: Record<string, unknown>[] }
  errorCode?: string
  errorMessage?: string
  customMetadata?: { run?: unknown; dispatch?: unknown }
}

/** A code alone says why a model ended, such as STOP or MAX_TOKENS. */
export function isFault({ errorCode, errorMessage }: RunEvent): boolean {
  return Boolean(errorCode && errorMessage)
}

export interface RunEvents {
  events: readonly RunEvent[]
  isLive: boolean
  problem: Problem | null
}

const paintEveryMs = 200

/** `path` of the run or dispatch, below /api/v1. */
export function useRunEvents(path: string): RunEvents {
  const [state, setState] = useState<RunEvents>({ events: [], isLive: true, problem: null })
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    const events: RunEvent[] = []
    let shown = 0
    const change = (changes: Partial<RunEvents>) => setState((before) => ({ ...before, ...changes }))
    setState({ events: [], isLive: true, problem: null })

    async function read() {
      for await (const { id, data } of streamEvents({
        path: `/api/v1/${path}/events`,
        signal,
        onState: (problem) => change({ problem }),
      })) {
        const event = data as Omit<RunEvent, 'number'>
        // The last frame says how it ended: its own row shows that.
        const { run, dispatch } = event.customMetadata ?? {}
        if (event.author === 'gateway' && (run || dispatch)) return
        // Pieces come again as a whole.
        if (id !== undefined) events.push({ ...event, number: id })
      }
    }
    const paint = () => {
      if (events.length === shown) return
      shown = events.length
      change({ events: [...events] })
    }
    const painting = setInterval(paint, paintEveryMs)
    read()
      .catch((error) => {
        if (!signal.aborted) change({ problem: asProblem(error) })
      })
      .finally(() => {
        if (signal.aborted) return
        paint()
        change({ isLive: false })
      })
    return () => {
      clearInterval(painting)
      controller.abort()
    }
  }, [path])
  return state
}
