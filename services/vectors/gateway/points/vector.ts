/** Numbers of a request in, float32 components out, or what is wrong with them. */

import { vectorDimension } from '#engines/vectors/collections.ts'
import { validationFailed } from '#runtime/http/validation.ts'

const float32Max = 3.4028234663852886e38
/** Below this a float32 loses precision: a squared norm that small is as good as zero to an engine. */
const float32MinNormal = 1.1754943508222875e-38

/**
 * Writes a vector into `target` at `at` and returns undefined, or what is wrong with it. Engines take the norm in
 * float32, so it must neither overflow nor vanish there.
 */
export function packVector(value: unknown, target: Float32Array, at: number): string | undefined {
  if (!Array.isArray(value)) return `must be an array of ${vectorDimension} numbers`
  if (value.length !== vectorDimension) {
    return `must have ${vectorDimension} numbers, not ${value.length}`
  }
  let squares = 0
  for (let i = 0; i < vectorDimension; i++) {
    const number: unknown = value[i]
    if (typeof number !== 'number') return `must hold numbers only: component ${i} is none`
    const component = Math.fround(number)
    if (component - component !== 0) return `must fit float32: component ${i} does not`
    target[at + i] = component
    squares += component * component
  }
  if (squares > float32Max) return 'must have a norm that fits float32'
  if (squares === 0) return 'must not be the zero vector'
  if (squares < float32MinNormal) return 'must have a norm that float32 can tell from zero'
  return undefined
}

/** The vector that a search is given. Throws AppError `validation_failed` at /vector. */
export function readQueryVector(value: unknown): Float32Array {
  const vector = new Float32Array(vectorDimension)
  const fault = packVector(value, vector, 0)
  if (fault) throw validationFailed([{ path: '/vector', message: fault }])
  return vector
}
