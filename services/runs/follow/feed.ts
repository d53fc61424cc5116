/** Follows runs.events once for all answers of this instance that wait for a run. */

import type { Log } from '#engines/event-log/port.ts'
import { type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { runsEvents } from '#topics/catalog.ts'
import type { LocalRuns } from '../state/claims.ts'

/** Whose records a listener hears: a tree by the id of its root run, or a dispatch by the number of its goal. */
export type FeedKey = string | number

export type Feed = Awaited<ReturnType<typeof openFeed>>

/** `local`: from the dispatcher of this process, whose records come once more with the log. */
export type FeedListener = (record: RunEventRecord, local: boolean) => void

interface FeedParts extends FollowParts {
  eventLog: Log
  /** Runs of this process, where it may have the dispatcher. */
  local?: Pick<LocalRuns, 'readers'>
  codec: Codec
}

export async function openFeed({ local, ...parts }: FeedParts) {
  // No more than answers that wait.
  const listeners = new Map<FeedKey, Set<FeedListener>>()

  /** Whether somebody waits for it. */
  function pass(record: RunEventRecord, isLocal: boolean): boolean {
    const heard = [record.root_run_id, record.goal_id].flatMap((key) =>
      key === null ? [] : [...(listeners.get(key) ?? [])],
    )
    for (const listener of heard) listener(record, isLocal)
    return heard.length > 0
  }

  const following = await followTopic(parts, runsEvents, {
    from: 'end',
    wanted: ({ value }) => value !== null && listeners.size > 0,
    onMessage({ value }) {
      if (value) pass(value, false)
    },
  })
  const hear = (record: RunEventRecord) => pass(record, true)
  local?.readers.add(hear)
  return {
    /** Calls `listener` with each record until the result is called. Records may be missing: the rows have all. */
    subscribe(key: FeedKey, listener: FeedListener): () => void {
      const together = listeners.get(key) ?? new Set()
      listeners.set(key, together.add(listener))
      return () => {
        together.delete(listener)
        if (together.size === 0 && listeners.get(key) === together) listeners.delete(key)
      }
    },
    async close() {
      local?.readers.delete(hear)
      await following.close()
    },
  }
}
