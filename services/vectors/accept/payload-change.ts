/** A change of a payload by its keys: read from a request, carried in a record's header, and made. */

import type { Payload } from '#engines/vectors/port.ts'
import type { FieldError } from '#lib/errors.ts'
import { grouped } from '#lib/plural.ts'
import { fieldErrorsMax, validationFailed } from '#runtime/http/validation.ts'
import { packPayload, payloadBytesMax } from './points.ts'

export interface PayloadChange {
  /** Top-level keys and their new values. */
  set: Payload
  /** Top-level keys to take away. */
  remove: string[]
}

/** Kept by the platform: it is what the vector was made of. */
const textKey = 'text'

/** Throws AppError `validation_failed`, at /set or /remove, or at the root where there is nothing to change. */
export function readPayloadChange(given: { set?: unknown; remove?: string[] | null }): PayloadChange {
  const { set: value, remove } = { set: given.set ?? {}, remove: given.remove ?? [] }
  const packed = packPayload(value, undefined)
  if ('fault' in packed) throw validationFailed([{ path: '/set', message: packed.fault }])
  const set = value as Payload
  const errors: FieldError[] = []
  if (Object.keys(set).length + remove.length === 0) {
    errors.push({ path: '', message: 'at least one key in set or remove' })
  }
  const isText = 'must not change the text that the vector was made of: upsert the point'
  if (Object.hasOwn(set, textKey)) errors.push({ path: `/set/${textKey}`, message: isText })
  for (const [n, key] of remove.entries()) {
    const message = key === textKey ? isText : Object.hasOwn(set, key) ? 'must not be in set, too' : undefined
    if (message && errors.length < fieldErrorsMax) errors.push({ path: `/remove/${n}`, message })
  }
  if (errors.length > 0) throw validationFailed(errors)
  return { set, remove }
}

/** The payload with the change, as JSON text; its fault where that is longer than a payload may be. */
export function changedPayload(
  payload: Payload,
  { set, remove }: PayloadChange,
): { json: string } | { fault: string } {
  const gone = new Set(remove)
  const kept = Object.entries(payload).filter(([key]) => !gone.has(key))
  const json = JSON.stringify({ ...Object.fromEntries(kept), ...set })
  return Buffer.byteLength(json) > payloadBytesMax
    ? { fault: `with the change its payload would have more than ${grouped(payloadBytesMax)} bytes as JSON` }
    : { json }
}
