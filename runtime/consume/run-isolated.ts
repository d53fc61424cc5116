/** Runs one suspicious record while nothing else of the member runs: if the process ends, that record ended it. */

import type { RunnerHost } from './partition-host.ts'

type IsolationHost = Pick<RunnerHost, 'group' | 'guard' | 'committer' | 'ending' | 'whenMayCall'>

/** `work` is announced by a commit and cleared by another. Null when the partition came to its end before it began. */
export async function runIsolated<T>(
  host: IsolationHost,
  offset: number,
  work: () => Promise<T>,
): Promise<T | null> {
  const { group, guard, committer } = host
  // A decoding that had to wait lets others in between.
  while (group.exclusive.held) if (!(await host.whenMayCall())) return null
  group.exclusive.held = true
  try {
    await group.calls.idle()
    guard.announce(offset)
    if (!(await committer.flush()) || host.ending.aborted) return null
    const result = await work()
    guard.callEnded(offset)
    await committer.flush()
    return result
  } finally {
    guard.announce(null)
    group.exclusive.held = false
    group.wakeAll()
  }
}
