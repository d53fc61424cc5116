/** The dispatcher on Postgres. */

import { openPostgres } from '#engines/relational/postgres.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeDispatcher } from './runs-dispatcher.promises.ts'

describeDispatcher('Postgres', async () => {
  const relational = await openPostgres({ url: await databaseUrl(), log: silentLog })
  await relational.query('create extension if not exists vector')
  return relational
})
