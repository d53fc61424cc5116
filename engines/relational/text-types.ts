/** Results of pg as the text that PostgreSQL sent: both relational drivers parse the same texts, so that they agree. */

import type pg from 'pg'

/** The types of pg describe a parser for each of its own result types; this one leaves every text as it is. */
export const textTypes = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig
