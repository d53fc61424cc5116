/**
 * Validates requests by their route's schema: nothing is coerced or removed, and faults carry JSON Pointers. Bodies are JSON
 * whose texts UTF-8 can carry, which JSON.parse does not see to.
 */

import { isAscii, isUtf8 } from 'node:buffer'
import { Ajv, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { AppError, type FieldError } from '#lib/errors.ts'
import { pointerPart } from '#lib/path-part.ts'
import { requestSentence, type WordedFault, wordedFaults } from '#lib/schema-faults.ts'

/** In the schema of a text that the database keeps or compares: it takes no NUL. */
export const withoutNul = { pattern: '^[^\\u0000]*$', rule: 'a text without the character NUL' }

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

/**
 * The faults of a value, or undefined when it fits. Compiled at the first value: a start does not wait for every route.
 * `showsValues`: false where faults go to others than the sender, who may have sent a secret.
 */
export function compileCheck(
  schema: unknown,
  { showsValues = true } = {},
): (value: unknown) => FieldError[] | undefined {
  const wordsOf = ({ errors }: ValidateFunction, value: unknown) =>
    fieldErrors(wordedFaults(errors ?? [], schema, value), showsValues)
  let quick: ValidateFunction | undefined
  let full: ValidateFunction | undefined
  return (value) => {
    quick ??= first.compile(schema as object)
    if (quick(value)) return undefined
    if (!isSmall(value)) return wordsOf(quick, value)
    full ??= all.compile(schema as object)
    return wordsOf(full(value) ? quick : full, value)
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

function fieldErrors(faults: readonly WordedFault[], showsValues: boolean): FieldError[] {
  return faults.slice(0, fieldErrorsMax).map(({ path, value, ...fault }) => ({
    path: path.slice(0, pathLengthMax).toWellFormed(),
    message: requestSentence(showsValues && value !== undefined ? { ...fault, value } : fault).toWellFormed(),
  }))
}

/** Deeper values overflow the stack of later steps: a copy between threads, JSON.stringify. */
const depthMax = 128

/**
 * Throws AppError `invalid_json`, or `validation_failed` for values that are nested too deep and for text that no UTF-8
 * can carry (lone surrogates). Not `shallow`: whoever asks checks by itself how deep the parts are that it keeps.
 */
export function parseJson(body: Buffer, { shallow = true } = {}): unknown {
  const text = textOf(body)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's own message quotes the body.
    throw new AppError('invalid_json', 'Send a body that is valid JSON.')
  }
  if (shallow && isTooDeep(text, value)) {
    throw validationFailed([{ path: '', message: `at most ${depthMax} levels of nesting` }])
  }
  if (mayHoldSurrogates(text)) refuseLoneSurrogates(value)
  return value
}

function textOf(body: Buffer): string {
  if (isAscii(body)) return body.toString('latin1')
  if (isUtf8(body)) return body.toString('utf8')
  throw new AppError('invalid_json', 'Send a body in UTF-8.')
}

/** Whether the value of this JSON has more levels than may be passed on. */
export function isTooDeep(text: string, value: unknown): boolean {
  return mayBeDeep(text) && isDeep(value)
}

/** Most bodies hold a few brackets: looking for them costs less than going through all values. */
function mayBeDeep(text: string): boolean {
  let opened = 0
  for (const bracket of ['{', '[']) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      if (++opened > depthMax) return true
    }
  }
  return false
}

function isDeep(root: unknown): boolean {
  let level = [root].filter(isNested)
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > depthMax) return true
    level = level.flatMap((item) => Object.values(item).filter(isNested))
  }
  return false
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** UTF-8 cannot hold a surrogate, so one can only come from an escape. */
function mayHoldSurrogates(text: string): boolean {
  return text.includes('\\u') && /\\u[dD][89a-fA-F]/.test(text)
}

function refuseLoneSurrogates(value: unknown): void {
  const open: { value: unknown; path: string }[] = [{ value, path: '' }]
  for (let next = open.pop(); next; next = open.pop()) {
    const { value: item, path } = next
    if (typeof item === 'string') {
      if (!item.isWellFormed()) throw loneSurrogate(path)
    } else if (typeof item === 'object' && item !== null) {
      for (const [key, child] of Object.entries(item)) {
        if (!key.isWellFormed()) throw loneSurrogate(`${path}${pointerPart(key.toWellFormed())}`)
        if (typeof child === 'string' || typeof child === 'object') {
          open.push({ value: child, path: path.length > 200 ? path : `${path}${pointerPart(key)}` })
        }
      }
    }
  }
}

function loneSurrogate(path: string): AppError {
  return validationFailed([{ path: path.slice(0, 200), message: 'has half of a surrogate pair' }])
}
