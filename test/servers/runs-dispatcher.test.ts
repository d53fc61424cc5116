/** The dispatcher, the rows that it works with, turns, users, parts, schedules, and runs that are claimed with their acceptance, on Postgres. */

import type { Relational } from '#engines/relational/port.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { describeRunsAtOnce } from '../flow/runs-at-once.promises.ts'
import { describeDispatcher } from '../flow/runs-dispatcher.promises.ts'
import { describeInterrupts } from '../flow/runs-interrupt.promises.ts'
import { describePartsOfRuns } from '../flow/runs-parts.promises.ts'
import { describeQuestions } from '../flow/runs-questions.promises.ts'
import { describeSchedules } from '../flow/runs-schedules.promises.ts'
import { describeTurnsOfRuns } from '../flow/runs-turns.promises.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeMessages } from '../unit/services/runs/state/message.promises.ts'
import { describeRows } from '../unit/services/runs/state/state.promises.ts'
import { describeTurns } from '../unit/services/runs/state/turns.promises.ts'
import { describeUsers } from '../unit/services/runs/state/users.promises.ts'

async function open(): Promise<Relational> {
  const relational = await openPostgres({ url: await databaseUrl(), log: silentLog })
  await relational.query('create extension if not exists vector')
  return relational
}

describeRows(open)
describeMessages(open)
describeTurns(open)
describeUsers(open)
describeDispatcher('Postgres', open)
describeRunsAtOnce('Postgres', open)
describeQuestions('Postgres', open)
describeInterrupts('Postgres', open)
describeTurnsOfRuns('Postgres', open)
describePartsOfRuns('Postgres', open)
describeSchedules('Postgres', open)
