/** Follows a run, or a dispatch, to its end: durable events, pieces of text as they come, and agents that will not answer. */

import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { createScope } from '#lib/resource.ts'
import { openFeed } from '#services/runs/follow/feed.ts'
import { openFollow } from '#services/runs/follow/follow.ts'
import {
  createLooks,
  dispatchOf as eventsOfDispatch,
  type Subject,
  treeOf,
} from '#services/runs/follow/subjects.ts'
import { viewOfDispatch } from '#services/runs/gateway/views.ts'
import { parseEvent } from '#services/runs/state/read.ts'
import type { Run, RunEvent, StoredEvent } from '#services/runs/state/types.ts'
import { defineOperation, type OperationContext } from './operation.ts'
import {
  type DispatchView,
  dispatchOf,
  explainedError,
  explainedRun,
  goalIdOf,
  nodeFault,
  type RunView,
  runOf,
} from './runs.ts'

/** `partial`: a piece of a text that comes as a whole later. */
export type FollowedItem =
  | { kind: 'event'; event: RunEvent }
  | { kind: 'partial'; event: RunEvent }
  | { kind: 'status'; agent: string; status: string; error: string | null }

export type Followed = { events: StoredEvent[] } & ({ run: RunView } | { dispatch: DispatchView })

type Context = OperationContext<FollowedItem>

export const followRunOperation = defineOperation({
  name: 'runs follow',
  services: ['run-dispatcher', 'outbox-publisher'],
  /** Id of a run, or the number of a dispatch. */
  args: Type.Object({
    id: Type.String(),
    /** Whether the result holds the events, too. */
    keep: Type.Boolean(),
    /** Only events behind it: those since an answer. */
    after: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
  async run(context: Context, { id, keep, after = 0 }): Promise<Followed> {
    const { relational } = context.platform.engines
    const goalId = goalIdOf(id)
    if (goalId === undefined) {
      const begun = await runOf(relational, id)
      if (begun.status === 'queued') await giveReason(context, begun.agent)
      const own = begun.runId === begun.rootRunId || after === 0 ? undefined : begun.runId
      const events = await follow(context, treeOf(relational, begun.rootRunId, own), keep, {
        after,
        untilAsked: true,
      })
      return { run: await explainedRun(context, await runOf(relational, id)), events }
    }
    await dispatchOf(relational, goalId)
    const giveFallen = createFallen(context, relational, goalId)
    const events = await follow(context, eventsOfDispatch(relational, goalId), keep, { giveMore: giveFallen })
    await giveFallen()
    return { dispatch: viewOfDispatch(await dispatchOf(relational, goalId)), events }
  },
})

/** Says at once why a run waits: its node has half a minute to come, which is long to be silent. */
async function giveReason({ platform, output, signal }: Context, agent: string): Promise<void> {
  const fault = await nodeFault(platform, agent, signal)
  if (fault !== null) await output.item({ kind: 'status', agent, status: 'waits', error: fault })
}

/** Tells once of each agent of a dispatch that it will not answer. */
function createFallen(context: Context, relational: Relational, goalId: number): () => Promise<void> {
  const reported = new Set<string>()
  return async () => {
    const { runs } = await dispatchOf(relational, goalId)
    for (const { runId, agent, status, error } of runs) {
      if ((status !== 'failed' && status !== 'canceled') || reported.has(runId)) continue
      reported.add(runId)
      const explained = await explainedError(context, { agent, error })
      await context.output.item({ kind: 'status', agent, status, error: explained?.message ?? null })
    }
  }
}

/** `giveMore` is called when a run of it may have ended. With `untilAsked` a question ends it; otherwise it is shown, and all goes on. */
async function follow<T>(
  { platform, output, signal }: Context,
  subject: Subject<T>,
  keep: boolean,
  { giveMore = async () => {}, after = 0, untilAsked = false } = {},
): Promise<StoredEvent[]> {
  const { log, engines } = platform
  const { relational } = engines
  const scope = createScope()
  let giving: Promise<void> | undefined
  function giveSoon(): void {
    giving ??= giveMore()
      // It is called again a second later.
      .catch(() => {})
      .finally(() => {
        giving = undefined
      })
  }
  try {
    const feed = scope.add('feed', await openFeed({ ...platform, ...engines }))
    const looks = scope.add('looks', createLooks({ relational, log }))
    const followed = openFollow({ relational, feed, looks }, subject)
    feed.subscribe(subject.feed, ({ status }) => {
      if (status !== null && status !== 'running') giveSoon()
    })
    looks.watch(subject.look, giveSoon)
    const events: StoredEvent[] = []
    /** By run: the last durable event that was given. */
    const givenTo = new Map<string, number>()
    for await (const followedEvent of followed.events({ after, untilAsked, signal })) {
      if ('readAsking' in followedEvent) {
        await output.item(itemOfAsking(await followedEvent.readAsking()))
        continue
      }
      const { seq, runId, json, behind = null } = followedEvent
      const event = parseEvent(json)
      if (seq !== null) {
        await output.item({ kind: 'event', event })
        givenTo.set(runId, seq)
        if (keep) events.push({ seq, runId, event })
        // The rows may be ahead of the log: then the whole text was given already.
      } else if (behind !== null && (givenTo.get(runId) ?? 0) <= behind) {
        await output.item({ kind: 'partial', event })
      }
    }
    signal.throwIfAborted()
    return events
  } finally {
    await giving
    await scope.close()
  }
}

function itemOfAsking({ agent, runId, question }: Run): FollowedItem {
  const names = question?.calls.map(({ name }) => name).join(', ')
  return { kind: 'status', agent, status: `asks as ${runId}`, error: question?.text || names || null }
}
