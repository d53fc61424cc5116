/** A dispatcher in a process of its own, to be killed or paused. It sends what it publishes to its parent. */

import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { openPostgres } from '#engines/relational/postgres.ts'
import { hearNotices } from '#runtime/notices.ts'
import { startDispatcher } from '#services/runs/dispatch/dispatcher.ts'
import { createRunNews } from '#services/runs/dispatch/news.ts'
import type { RunTimes } from '#services/runs/dispatch/parts.ts'
import { createNodeCalls } from '#services/runs/nodes/adk/call.ts'
import { nodesAt, shortTimes } from './run-nodes.ts'

export interface ChildGiven {
  databaseUrl: string
  nodeUrl: string
  slugs?: string[]
  concurrency?: number
  holder: string
  times: Partial<RunTimes>
}

const silentLog = pino({ level: 'silent' })

async function work(given: ChildGiven): Promise<void> {
  const relational = await openPostgres({ url: given.databaseUrl, log: silentLog })
  const nodes = nodesAt(given.nodeUrl, given.slugs, { concurrency: given.concurrency ?? 4 })
  const publisher = {
    publish: async (_topic: unknown, messages: { value: unknown }[]) => {
      for (const { value } of messages) process.send?.(value)
      return []
    },
  }
  const dispatcher = startDispatcher({
    relational,
    log: silentLog,
    holder: given.holder,
    nodes: () => nodes,
    ...createNodeCalls(),
    news: createRunNews(publisher as never, silentLog),
    ringOutbox: () => {},
    times: { ...shortTimes, ...given.times },
    drainMs: () => 0,
    retentionDays: 30,
    inputWaitS: 86_400,
  })
  hearNotices({ relational, log: silentLog }, 'flotilla_runs', dispatcher.heard)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await work(JSON.parse(process.argv[2]!) as ChildGiven)
