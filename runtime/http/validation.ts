/** Validates requests by their route's schema: nothing is coerced or removed, and faults carry JSON Pointers. */

import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { AppError, type FieldError } from '#lib/errors.ts'
import { pointerPart } from '#lib/json-pointer.ts'

/** Faults that one answer lists. */
export const fieldErrorsMax = 20
/** All faults are searched for only in values of up to this many nodes: one fault a node of a 1 MiB body is too much. */
const nodesMax = 2_000
const pathLengthMax = 200

const options = {
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: true,
  strict: false,
  // JSON.parse makes Infinity of 1e999.
  strictNumbers: true,
} as const
const first = new Ajv({ ...options, allErrors: false })
const all = new Ajv({ ...options, allErrors: true })

/** Fastify's validator compiler: stops at the first fault, then, for small values only, collects all of them. */
export const createValidator: FastifySchemaCompiler<unknown> = ({ schema }) => {
  const check = compileCheck(schema)
  return (value: unknown) => {
    const errors = check(value)
    return errors === undefined ? true : { error: validationFailed(errors) }
  }
}

/** The faults of a value, or undefined when it fits. Compiled at the first value: a start does not wait for every route. */
export function compileCheck(schema: unknown): (value: unknown) => FieldError[] | undefined {
  let quick: ValidateFunction | undefined
  let full: ValidateFunction | undefined
  return (value) => {
    quick ??= first.compile(schema as object)
    if (quick(value)) return undefined
    if (!isSmall(value)) return fieldErrors(quick.errors)
    full ??= all.compile(schema as object)
    full(value)
    return fieldErrors(full.errors ?? quick.errors)
  }
}

export function validationFailed(errors: FieldError[]): AppError {
  return new AppError('validation_failed', 'Correct the fields that are named in errors.', {
    errors: errors.slice(0, fieldErrorsMax),
  })
}

function isSmall(value: unknown): boolean {
  const open: unknown[] = [value]
  let seen = 0
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== 'object' || next === null) continue
    const children = Object.values(next)
    seen += children.length
    if (seen > nodesMax) return false
    for (const child of children) open.push(child)
  }
  return true
}

function fieldErrors(errors: ErrorObject[] | null | undefined): FieldError[] {
  return (errors ?? []).slice(0, fieldErrorsMax).map((error) => {
    const { path, message } = describe(error)
    return { path: path.slice(0, pathLengthMax).toWellFormed(), message }
  })
}

function describe(error: ErrorObject): FieldError {
  const { instancePath, keyword, params, message } = error
  switch (keyword) {
    case 'additionalProperties':
      return {
        path: instancePath + pointerPart(String(params.additionalProperty)),
        message: 'is not a known field',
      }
    case 'required':
      return { path: instancePath + pointerPart(String(params.missingProperty)), message: 'is required' }
    case 'enum':
      return { path: instancePath, message: `must be one of ${params.allowedValues.join(', ')}` }
    case 'const':
      return { path: instancePath, message: `must be ${JSON.stringify(params.allowedValue)}` }
    default:
      return { path: instancePath, message: message ?? 'is not valid' }
  }
}
