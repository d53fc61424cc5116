/** Filters of points by their payloads. */

export type FilterValue = string | number | boolean

/**
 * `value`: equal by value and type, and an array contains it. `any`: one of these. `except`: the key has a value that is none of
 * these. `text`: every word of it is a word of the value, whatever the case and marks.
 */
export type FilterMatch =
  | { value: FilterValue }
  | { any: FilterValue[] }
  | { except: FilterValue[] }
  | { text: string }

/** All numbers, or all ISO 8601 times. */
export interface FilterRange {
  gt?: number | string
  gte?: number | string
  lt?: number | string
  lte?: number | string
}

/**
 * `key`: a payload key; a dotted one is a path through objects. Of an array any element counts. An empty key is missing, null or
 * `[]`. A filter as a condition holds where it matches.
 */
export type FilterCondition =
  | { key: string; match: FilterMatch }
  | { key: string; range: FilterRange }
  | { is_empty: { key: string } }
  | Filter

/**
 * A point matches when every condition of `must` holds, one of `should` where there are any, and none of `must_not`. A missing key
 * meets no condition but `is_empty`.
 */
export interface Filter {
  must?: FilterCondition[]
  should?: FilterCondition[]
  must_not?: FilterCondition[]
}
