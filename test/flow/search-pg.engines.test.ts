/** search-pg on Postgres with pgvector; the other engines are embedded. */

import { databaseUrl } from '../support/servers.ts'
import { describeSearchPgFlow } from './search-pg.promises.ts'

describeSearchPgFlow('Postgres', async () => ({ DATABASE_URL: await databaseUrl() }))
