/** Rows of runs for tests of the statements that change them. */

import type { Relational } from '#engines/relational/port.ts'
import { acceptRun, type NewRun, newRunId } from '#services/runs/state/accept.ts'
import { claimRuns } from '#services/runs/state/claims.ts'
import { ensureNodes } from '#services/runs/state/node-rows.ts'
import type { ClaimedRun, Run } from '#services/runs/state/types.ts'

export function newRun(given: Partial<NewRun> = {}): NewRun {
  const slug = given.slug ?? 'whale'
  return {
    runId: newRunId(),
    slug,
    agent: slug.toUpperCase(),
    userId: 'ada',
    sessionId: 's1',
    trigger: 'api',
    callerUid: 'uid-ada',
    requestId: null,
    message: { role: 'user', parts: [{ text: 'hello' }] },
    streaming: false,
    ...given,
  }
}

export async function accept(relational: Relational, given: Partial<NewRun> = {}): Promise<Run> {
  return (await acceptRun(relational, newRun(given))).run
}

export async function claim(
  relational: Relational,
  given: Partial<Parameters<typeof claimRuns>[1]> = {},
): Promise<ClaimedRun[]> {
  const slug = given.slug ?? 'whale'
  await ensureNodes(relational, [{ slug, codename: slug.toUpperCase() }])
  return claimRuns(relational, { slug, concurrency: 4, holder: 'd', leaseMs: 30_000, max: 100, ...given })
}
