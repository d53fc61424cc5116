/** Runs one suspicious record while nothing else of the member runs: if the process ends, it was this one. */

import type { RunnerHost } from './partition-host.ts'

/**
 * `work` is announced by a commit and cleared by another. Resolves with its result, or with null when the partition was
 * over before it began.
 */
export async function runAlone<T>(
  host: RunnerHost,
  offset: number,
  work: () => Promise<T>,
): Promise<T | null> {
  const { group, guard, committer } = host
  // A decoding that had to wait lets others in between.
  while (group.exclusive.held) if (!(await host.callable())) return null
  group.exclusive.held = true
  try {
    await group.calls.idle()
    guard.announce(offset)
    if (!(await committer.flush()) || host.over) return null
    const result = await work()
    guard.survived(offset)
    await committer.flush()
    return result
  } finally {
    guard.announce(null)
    group.exclusive.held = false
    group.wakeAll()
  }
}
