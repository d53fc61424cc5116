/** search-pg on Postgres with pgvector; the other engines are embedded. */

import { describeSearchPgFlow } from '../flow/search-pg.promises.ts'
import { databaseUrl } from '../support/servers.ts'

describeSearchPgFlow('Postgres', async () => ({ DATABASE_URL: await databaseUrl() }))
