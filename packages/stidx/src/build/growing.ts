/** Columns of numbers that grow with the records, in typed memory. */

interface Column {
  readonly length: number
  set(from: ArrayLike<number>): void
  [index: number]: number
}

/** The same column or, where `index` lies beyond it, one of at least double the length with the same numbers. */
export function grown<T extends Column>(column: T, index: number): T {
  if (index < column.length) return column
  const Make = column.constructor as new (length: number) => T
  const larger = new Make(Math.max(column.length * 2, index + 1))
  larger.set(column)
  return larger
}
