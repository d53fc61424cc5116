/**
 * Operation ids: opaque texts that say what an accepted operation wrote, so that their holder can ask how far it is.
 */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { AppError } from '#lib/errors.ts'
import type { Position } from '#runtime/publish/messages.ts'
import type { Secrets } from '#services/access/secrets/secrets.ts'

export interface Operation {
  /** 16 hex digits; the `operation` header of each record, and the key of failure rows. */
  number: string
  /** Epoch of vectors.commands. */
  epoch: number
  /** The last position in each partition that it touched. */
  last: Position[]
}

export interface OperationIds {
  encode(operation: Operation): string
  /** Throws AppError `invalid_operation_id` for ids that this installation did not give. */
  decode(id: string): Operation
}

const version = 1
const numberBytes = 8
const checksumBytes = 12
const secretBytes = 32
const idPattern = /^[A-Za-z0-9_-]{28,16000}$/

export function newOperationNumber(): string {
  return randomBytes(numberBytes).toString('hex')
}

/** The last position of each partition among those of an operation's records. */
export function lastPositions(positions: readonly Position[]): Position[] {
  const last = new Map<number, number>()
  for (const { partition, offset } of positions) {
    last.set(partition, Math.max(offset, last.get(partition) ?? -1))
  }
  return [...last].map(([partition, offset]) => ({ partition, offset }))
}

/** The secret that signs operation ids; the first gateway that starts makes it. Throws as `Secrets.get`. */
export function loadOperationSecret(secrets: Secrets): Promise<Buffer> {
  return secrets.get('operation-ids', async (tx) => {
    // Earlier releases kept it here, not encrypted.
    const { rows } = await tx.query<{ secret: Buffer }>('delete from platform.installation returning secret')
    return rows[0]?.secret ?? randomBytes(secretBytes)
  })
}

export function createOperationIds(secret: Buffer): OperationIds {
  const checksumOf = (body: Buffer) =>
    createHmac('sha256', secret).update('operation-id').update(body).digest().subarray(0, checksumBytes)
  return {
    encode({ number, epoch, last }) {
      const body = Buffer.concat([
        Buffer.from([version]),
        Buffer.from(number, 'hex'),
        varint(epoch),
        varint(last.length),
        ...last.flatMap(({ partition, offset }) => [varint(partition), varint(offset)]),
      ])
      return Buffer.concat([body, checksumOf(body)]).toString('base64url')
    },
    decode(id) {
      if (!idPattern.test(id)) throw notOurs()
      const bytes = Buffer.from(id, 'base64url')
      // Only the form that was given counts: no stray bits in the last character.
      if (bytes.length <= numberBytes + checksumBytes || bytes.toString('base64url') !== id) throw notOurs()
      const body = bytes.subarray(0, -checksumBytes)
      if (!timingSafeEqual(checksumOf(body), bytes.subarray(-checksumBytes))) throw notOurs()
      return parse(body)
    },
  }
}

/** The checksum held: the bytes are as `encode` wrote them. */
function parse(body: Buffer): Operation {
  if (body[0] !== version) throw notOurs()
  let at = 1 + numberBytes
  const next = () => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = body[at++] as number
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
    }
  }
  const epoch = next()
  const count = next()
  const last = Array.from({ length: count }, () => ({ partition: next(), offset: next() }))
  return { number: body.toString('hex', 1, 1 + numberBytes), epoch, last }
}

/** Unsigned LEB128; offsets go beyond 32 bits. */
function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80)
    rest = Math.floor(rest / 128)
  }
  bytes.push(rest)
  return Buffer.from(bytes)
}

function notOurs(): AppError {
  return new AppError('invalid_operation_id', 'Send an operation_id as upsert or delete answered it.')
}
