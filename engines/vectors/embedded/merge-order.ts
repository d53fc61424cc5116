/** What the process that builds an index is given: where the points are and where the index goes. */

export interface MergeOrder {
  /** The SQLite file and the table of points in it. */
  database: string
  table: string
  /** Where the index is made; must not exist. */
  path: string
  dimension: number
  nativeModule: string
}
