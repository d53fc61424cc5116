/** Vectors for tests. */

import { vectorDimension } from '#engines/vectors/collections.ts'

/** A unit vector that points mostly along `axis`; near ones have near axes' weights. */
export function axisVector(axis: number, tilt = 0): number[] {
  const vector = new Array<number>(vectorDimension).fill(0)
  vector[axis % vectorDimension] = 1
  vector[(axis + 1) % vectorDimension] = tilt
  return vector
}
