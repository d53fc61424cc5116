/** Checks operations on points, compares their positions and keeps one for each id: what every driver does. */

import { AppError } from '#lib/errors.ts'
import type { LogPosition, PointOperation } from './port.ts'

/** The newest operation of each id. */
export function newestPerId(operations: PointOperation[]): PointOperation[] {
  const newest = new Map<string, PointOperation>()
  for (const operation of operations) {
    if (isNewer(operation.position, newest.get(operation.id)?.position)) newest.set(operation.id, operation)
  }
  return newest.size === operations.length ? operations : [...newest.values()]
}

/** True when a record at `position` takes effect on a point that holds `stored`. The same record twice does not. */
export function isNewer(position: LogPosition, stored: LogPosition | undefined): boolean {
  return stored === undefined || comparePositions(position, stored) > 0
}

export function comparePositions(a: LogPosition, b: LogPosition): number {
  return a.epoch - b.epoch || a.offset - b.offset
}

/**
 * Throws AppError `validation_failed` for a point that no engine can keep; the message says where the fault is, the
 * first operation being number `from`.
 */
export function checkOperations(operations: PointOperation[], dimension: number, from = 0): void {
  operations.forEach((operation, i) => {
    const fault =
      idFault(operation.id) ?? (operation.kind === 'upsert' && vectorFault(operation.vector, dimension))
    if (fault) throw refusal(`/operations/${from + i}`, fault)
  })
}

function refusal(path: string, message: string): AppError {
  return new AppError('validation_failed', `The vector engine refuses ${path}: ${message}.`, {
    errors: [{ path, message }],
  })
}

function idFault(id: string): string | undefined {
  // A lone surrogate has no UTF-8 form: it would come back as another id.
  return id.isWellFormed() ? undefined : 'the id is not well-formed Unicode'
}

/** Also refuses a vector without direction, which has no cosine. */
function vectorFault(vector: Float32Array, dimension: number): string | undefined {
  if (vector.length !== dimension) return `the vector has ${vector.length} numbers instead of ${dimension}`
  let sum = 0
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * vector[i]!
  if (!Number.isFinite(sum)) return 'the vector has a component that is not a finite number'
  return sum === 0 ? 'the vector is zero and has no direction' : undefined
}
