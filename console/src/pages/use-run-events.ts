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
  customMetadata?: { run?: { status?: string }; dispatch?: unknown }
}

/** Why a model ended, where nothing failed: some frameworks give it as an error code. */
const ends: ReadonlySet<string> = new Set([
  'STOP',
  'END_TURN',
  'STOP_SEQUENCE',
  'TOOL_CALLS',
  'TOOL_USE',
  'MAX_TOKENS',
  'LENGTH',
])

/** Whether the event says that the agent failed, also where it gives no message. */
export function isFault({ errorCode }: RunEvent): boolean {
  return Boolean(errorCode) && !ends.has(errorCode!.toUpperCase())
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
        // The last frame says how it ended: its own row shows that, and a question, behind which more comes.
        const { run, dispatch } = event.customMetadata ?? {}
        if (event.author === 'gateway' && (run || dispatch)) {
          // A question has no id.
          if (id === undefined) continue
          return
        }
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
