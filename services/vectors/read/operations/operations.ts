/** Operations: their ids, how far one is (accepted, applied or failed), and waiting for it. */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Position, Publisher } from '#runtime/publish/messages.ts'
import type { Secrets } from '#services/access/secrets/secrets.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import type { IndexProgress, Progress } from './progress.ts'

const waitMs = 10_000

type OperationState =
  | { status: 'accepted' }
  | { status: 'applied' }
  /** `error` is the reason of its first failed point, never the engine's own text. */
  | { status: 'failed'; error: string }

/** The vector engine, or the relational mirror. */
type ReadIndex = 'vectors' | 'relational'

export interface Operations {
  /** The operation whose records are at these positions. */
  of(number: string, positions: readonly Position[]): Operation
  idOf(operation: Operation): string
  /**
   * Throws AppError `invalid_operation_id` for a forged id or one of another installation, `operation_not_found` for
   * one of another epoch of the log.
   */
  parse(id: string): Operation
  state(operation: Operation): Promise<OperationState>
  /** As `state`, after at most ten seconds of waiting for a final one. */
  wait(operation: Operation): Promise<OperationState>
  /** Resolves when reads of that index reflect the operation; throws `not_yet_applied` or `operation_failed`. */
  after(id: string, index?: ReadIndex): Promise<void>
}

interface OperationsParts {
  relational: Relational
  publisher: Pick<Publisher, 'locationOf'>
  progress: IndexProgress & Pick<Progress, 'mirrored'>
  ids: OperationIds
  waitMs?: number
}

export function createOperations(parts: OperationsParts): Operations {
  const { progress, ids } = parts
  const epoch = () => parts.publisher.locationOf(vectorsCommands).epoch

  const progressOf = (index: ReadIndex): IndexProgress =>
    index === 'relational' ? progress.mirrored : progress

  function parse(id: string): Operation {
    const operation = ids.decode(id)
    if (operation.epoch !== epoch()) {
      throw new AppError('operation_not_found', 'The log was replaced after this operation.')
    }
    return operation
  }
  /** Failure rows are written before progress passes them, so without failed records the database is not asked. */
  async function finished(operation: Operation, index: ReadIndex): Promise<OperationState> {
    if (operation.last.every(({ partition }) => progressOf(index).failures(partition) === 0)) {
      return { status: 'applied' }
    }
    const { rows } = await parts.relational.query<{ error: string }>(
      `select error from platform.operation_failures where operation = $1 and index_name = $2
       order by partition, "offset" limit 1`,
      [operation.number, index],
    )
    return rows[0] ? { status: 'failed', error: rows[0].error } : { status: 'applied' }
  }
  async function wait(operation: Operation, index: ReadIndex): Promise<OperationState> {
    const reached = await progressOf(index).reached(operation.last, parts.waitMs ?? waitMs)
    return reached ? finished(operation, index) : { status: 'accepted' }
  }

  return {
    of: (number, positions) => ({ number, epoch: epoch(), last: lastPositions(positions) }),
    idOf: ids.encode,
    parse,
    async state(operation) {
      const applied = operation.last.every(
        ({ partition, offset }) => offset <= progress.appliedThrough(partition),
      )
      return applied ? finished(operation, 'vectors') : { status: 'accepted' }
    },
    wait: (operation) => wait(operation, 'vectors'),
    async after(id, index = 'vectors') {
      const state = await wait(parse(id), index)
      if (state.status === 'accepted') {
        throw new AppError('not_yet_applied', 'The operation named in after is not applied yet.', {
          retryAfter: 1,
        })
      }
      if (state.status === 'failed') {
        throw new AppError('operation_failed', 'The operation named in after failed.')
      }
    },
  }
}

export interface Operation {
  /** 16 hex digits; the `operation` header of each record, and the key of failure rows. */
  number: string
  /** Epoch of vectors.commands. */
  epoch: number
  /** The last position in each partition that it touched. */
  last: Position[]
}

interface OperationIds {
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
