/** Checks operations on points and keeps one for each id: what every driver does before a write. */

import { AppError } from '#lib/errors.ts'
import type { PointOperation } from './port.ts'

/** The last operation of each id, in the order of those last operations. */
export function lastPerId(operations: PointOperation[]): PointOperation[] {
  const last = new Map<string, PointOperation>()
  for (const operation of operations) {
    last.delete(operation.id)
    last.set(operation.id, operation)
  }
  return last.size === operations.length ? operations : [...last.values()]
}

/** Throws AppError `validation_failed` for a point that no engine can keep; the message says where the fault is. */
export function checkOperations(operations: PointOperation[], dimension: number): void {
  operations.forEach((operation, i) => {
    const fault =
      idFault(operation.id) ?? (operation.kind === 'upsert' && vectorFault(operation.vector, dimension))
    if (fault) throw refusal(`/operations/${i}`, fault)
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
