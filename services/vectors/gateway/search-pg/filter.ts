/** A filter_sql and a table's columns in, the condition that runs out: parsed, checked and written anew. */

import { LRUCache } from 'lru-cache'
import { type Columns, checkFilter } from './filter-checker.ts'
import { type EmittedFilter, emitFilter } from './filter-emitter.ts'
import { loadFilterParser } from './filter-parser.ts'

/** Filters whose emitted form is kept, each of at most a few KiB. */
const keptMax = 500

/** Throws AppError `invalid_filter` for everything that the allow-list does not have. */
export type FilterCompiler = (text: string, columns: Columns) => EmittedFilter

/** Loads the parser. The same text over the same `columns` object is compiled once. */
export async function loadFilterCompiler(): Promise<FilterCompiler> {
  const parse = await loadFilterParser()
  const kept = new LRUCache<string, { columns: Columns; emitted: EmittedFilter }>({ max: keptMax })
  return (text, columns) => {
    const found = kept.get(text)
    if (found?.columns === columns) return found.emitted
    const emitted = emitFilter(checkFilter(parse(text), columns))
    kept.set(text, { columns, emitted })
    return emitted
  }
}
