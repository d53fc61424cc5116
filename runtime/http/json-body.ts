/** Parses the bytes of a JSON body, and refuses what JSON.parse lets through but UTF-8 cannot carry. */

import { isAscii, isUtf8 } from 'node:buffer'
import { AppError } from '#lib/errors.ts'
import { pointerPart } from '#lib/json-pointer.ts'
import { validationFailed } from './validation.ts'

/** Deeper values overflow the stack of later steps: a copy between threads, JSON.stringify. */
const depthMax = 128

interface ParseOptions {
  /** False: whoever asks checks by itself how deep the parts are that it keeps. Default true. */
  shallow?: boolean
}

/**
 * Throws AppError `invalid_json`, or `validation_failed` for values that are nested too deep and for text that no UTF-8
 * can carry (lone surrogates).
 */
export function parseJson(body: Buffer, { shallow = true }: ParseOptions = {}): unknown {
  const text = textOf(body)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's own message quotes the body.
    throw new AppError('invalid_json', 'Send a body that is valid JSON.')
  }
  if (shallow && isTooDeep(text, value)) {
    throw validationFailed([{ path: '', message: `must not be nested deeper than ${depthMax} levels` }])
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
