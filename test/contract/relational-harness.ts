/** The database that the suites of the relational port work with. */

import { afterAll, beforeAll } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'

export interface RelationalHarness {
  /** Opens an empty database of its own. */
  open(): Promise<Relational>
}

/** One database for the tests of a describe block. */
export function useRelational(harness: RelationalHarness): () => Relational {
  let relational: Relational
  beforeAll(async () => {
    relational = await harness.open()
    await relational.query('create extension if not exists vector')
  })
  afterAll(() => relational.close())
  return () => relational
}
