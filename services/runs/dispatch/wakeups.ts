/** Hears what runs wait for: notices of the database, and records of runs.commands and runs.control. */

import type { Relational } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { done } from '#lib/outcome.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import {
  type ConsumerDependencies,
  type RunningConsumer,
  startBatchConsumer,
} from '#runtime/consume/consumer.ts'
import { followTopic } from '#runtime/follow/follow-topic.ts'
import { hearNotices } from '#runtime/notices.ts'
import { runsCommands, runsControl } from '#topics/catalog.ts'
import { cancelNotice, runsChannel } from '../state/notice.ts'

interface WakeupParts extends ConsumerDependencies {
  relational: Relational
}

const callTimeoutMs = deadlines.handler.runCommandsMs

export interface Heard {
  /** A run waits at this node. */
  run(slug: string, runId: string | null): void
  /** Somebody canceled a run. */
  cancel(): void
  /** Listening began: something may have been missed. */
  again(): void
}

export async function hearOfRuns(parts: WakeupParts, heard: Heard): Promise<Closeable> {
  const scope = createScope()
  const notices = hearNotices(parts, runsChannel, (payload) => {
    if (!payload) heard.again()
    else if (payload === cancelNotice) heard.cancel()
    else heard.run(payload, null)
  })
  scope.add('notices', notices)
  try {
    scope.add('commands', await joinCommands(parts, heard))
    const control = await followTopic(parts, runsControl, {
      from: 'end',
      onMessage({ value }) {
        if (value?.command === 'cancel') heard.cancel()
      },
    })
    scope.add('control', control)
  } catch (error) {
    await scope.close()
    throw error
  }

  return scope
}

/** A command only wakes: it is done at once, whatever becomes of the run. */
function joinCommands(parts: WakeupParts, heard: Heard): Promise<RunningConsumer> {
  return startBatchConsumer(parts, {
    group: 'run-dispatcher',
    topic: runsCommands,
    batchRecordsMax: 500,
    batchBytesMax: 1024 * 1024,
    callTimeoutMs,
    retriesMax: 5,
    backoff: { baseMs: 200, maxMs: 10_000 },
    async handle(messages) {
      for (const { value } of messages) if (value) heard.run(value.slug, value.run_id)
      return messages.map(() => done)
    },
  })
}
