/** A whole platform that nobody asks anything: what it costs the database. */

import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { createProcesses } from '../support/distributed-process.ts'
import { openStack } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'

const windowMs = 5_000
/** About two a second are meant: the looks of dispatcher and outbox. */
const perWindowMax = 25

test('at rest it asks Postgres a few times a second', async () => {
  const servers = await openStack()
  onTestFinished(servers.close)
  const env = await servers.newEnvironment()
  const processes = createProcesses(env)
  onTestFinished(processes.close)
  const database = new pg.Client({ connectionString: env.DATABASE_URL! })
  await database.connect()
  onTestFinished(() => database.end())
  const statements = async () => {
    const { rows } = await database.query<{ count: string }>(
      `select (xact_commit + xact_rollback)::text as count from pg_stat_database where datname = current_database()`,
    )
    return Number(rows[0]!.count)
  }
  await processes.start([])
  // What a start sets off is over at some time; work that repeats without need never is.
  const counts: number[] = []
  await eventually(`${perWindowMax} statements in ${windowMs} ms, or fewer`, async () => {
    const before = await statements()
    await sleep(windowMs)
    counts.push((await statements()) - before)
    if (counts.at(-1)! > perWindowMax) throw new Error(`it was asked ${counts}`)
    return true
  })
  expect(counts.at(-1)).toBeGreaterThan(0)
})
