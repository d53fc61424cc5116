/** The contract of the mirror, run on a real Postgres. */

import { openPostgresMirror } from '#engines/relational/mirror/postgres.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeMirror } from './mirror.contract.ts'

describeMirror('postgres', {
  open: async () => openPostgresMirror({ url: await databaseUrl(), log: silentLog }),
})
