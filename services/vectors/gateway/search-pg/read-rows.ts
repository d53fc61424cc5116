/** One read-only statement of search-pg in, its rows out. */

import type { SqlResult, SqlValue } from '#engines/relational/port.ts'

/** Runs under the settings and the time-out that all reads of search-pg share. */
export type ReadRows = <Row>(text: string, params: SqlValue[]) => Promise<SqlResult<Row>>
