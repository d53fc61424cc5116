/** The contract of search-pg, run on a real Postgres. */

import { openPostgresMirror } from '#engines/relational/mirror/postgres.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeSearchPg } from './search-pg.contract.ts'

describeSearchPg('Postgres', {
  open: async () => openPostgresMirror({ url: await databaseUrl(), log: silentLog }),
  indexed: true,
})
