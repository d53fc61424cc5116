/** The contract of the relational engine, run on a real Postgres. */

import { openPostgres } from '#engines/relational/postgres.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeRelational } from './relational.contract.ts'

describeRelational('postgres', {
  open: async () => openPostgres({ url: await databaseUrl(), log: silentLog }),
})
