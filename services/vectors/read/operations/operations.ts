/** Operations: their ids, how far one is (accepted, applied or failed), waiting for it, and a bound for what agents have accepted. */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Position, Publisher } from '#runtime/publish/messages.ts'
import type { Secrets } from '#services/access/secrets/secrets.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type ByOffset, createByOffset, type IndexProgress, type Progress } from './progress.ts'

/** The longest that a request waits for earlier writes. */
export const operationWaitMs = 10_000

type OperationState =
  | { status: 'accepted' }
  | { status: 'applied' }
  /** `error` is the reason of its first failed point, never the engine's own text. */
  | { status: 'failed'; error: string }

/** The vector engine, or the relational mirror. */
type ReadIndex = 'vectors' | 'relational'

export type Operations = ReturnType<typeof createOperations>

export function createOperations(parts: {
  relational: Relational
  publisher: Pick<Publisher, 'locationOf'>
  progress: IndexProgress & Pick<Progress, 'mirrored'>
  ids: ReturnType<typeof createOperationIds>
  waitMs?: number
}) {
  const { progress, ids } = parts
  const epoch = () => parts.publisher.locationOf(vectorsCommands).epoch
  const progressOf = (index: ReadIndex) => (index === 'relational' ? progress.mirrored : progress)

  /**
   * Throws AppError `invalid_operation_id` for a forged id or one of another installation, `operation_not_found` for
   * one of another epoch of the log.
   */
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
    const reached = await progressOf(index).reached(operation.last, parts.waitMs ?? operationWaitMs)
    return reached ? finished(operation, index) : { status: 'accepted' }
  }

  return {
    /** The operation whose records are at these positions. */
    of: (number: string, positions: readonly Position[]): Operation => ({
      number,
      epoch: epoch(),
      last: lastPositions(positions),
    }),
    idOf: ids.encode,
    parse,
    async state(operation: Operation): Promise<OperationState> {
      const isApplied = ({ partition, offset }: Position) => offset <= progress.appliedThrough(partition)
      return operation.last.every(isApplied) ? finished(operation, 'vectors') : { status: 'accepted' }
    },
    /** As `state`, after at most ten seconds of waiting for a final one. */
    wait: (operation: Operation): Promise<OperationState> => wait(operation, 'vectors'),
    /** Resolves when reads of that index reflect the operation; throws `not_yet_applied` or `operation_failed`. */
    async after(id: string, index: ReadIndex = 'vectors'): Promise<void> {
      const state = await wait(parse(id), index)
      if (state.status === 'accepted') {
        const message = 'The operation named in after is not applied yet.'
        throw new AppError('not_yet_applied', message, { retryAfter: 1 })
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

export function createOperationIds(secret: Buffer) {
  const checksumOf = (body: Buffer) =>
    createHmac('sha256', secret).update('operation-id').update(body).digest().subarray(0, checksumBytes)
  return {
    encode({ number, epoch, last }: Operation): string {
      const body = Buffer.concat([
        Buffer.from([version]),
        Buffer.from(number, 'hex'),
        varint(epoch),
        varint(last.length),
        ...last.flatMap(({ partition, offset }) => [varint(partition), varint(offset)]),
      ])
      return Buffer.concat([body, checksumOf(body)]).toString('base64url')
    },
    /** Throws AppError `invalid_operation_id` for ids that this installation did not give. */
    decode(id: string): Operation {
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

export const backlogPointsMax = 20_000
/** The applying rate is measured over this time. */
const rateWindowMs = 10_000
const rateSamplesMax = 64
/** The rate is taken over at least this time, because a single sample gives none. */
const rateLeastS = 0.5
/** `retryAfter` while nothing at all is being applied. */
const standstillRetryS = 5
const retryMaxS = 60

/** Points of one agent in one partition, by the offset after which they count as applied. */
interface Share {
  agent: AgentBacklog
  partition: number
  offset: number
  points: number
}

interface AgentBacklog {
  id: string
  points: number
  /** When how many points were applied, oldest first. */
  applied: { at: number; points: number }[]
}

/** Back-pressure: refuses upserts of an agent that has too many points accepted and not yet applied. */
export function createBacklog(
  progress: Pick<Progress, 'appliedThrough' | 'onApplied'>,
  now = () => performance.now(),
) {
  const agents = new Map<string, AgentBacklog>()
  const partitions = new Map<number, ByOffset<Share>>()
  progress.onApplied((partition, through) => {
    for (const share of partitions.get(partition)?.takeThrough(through) ?? []) take(share)
  })

  function take({ agent, points }: Share): void {
    agent.points -= points
    agent.applied.push({ at: now(), points })
    if (agent.applied.length > rateSamplesMax) agent.applied.shift()
    if (agent.points <= 0 && agents.get(agent.id) === agent) agents.delete(agent.id)
  }

  return {
    /** Points of an agent that are accepted here and not yet applied. */
    points: (agentId: string): number => agents.get(agentId)?.points ?? 0,
    /** Throws AppError `backlog_full` while the agent has more than 20,000 points accepted and not yet applied. */
    reserve(agentId: string, points: number) {
      const agent = agents.get(agentId) ?? { id: agentId, points: 0, applied: [] }
      agents.set(agentId, agent)
      if (agent.points > backlogPointsMax) throw backlogFull(agent, now())
      agent.points += points
      let settled = false
      const giveBack = (unused: number) => {
        agent.points -= unused
        if (agent.points <= 0 && agents.get(agentId) === agent) agents.delete(agentId)
      }
      return {
        /** These points are in the log; the others of the reservation are not, and never will be. */
        accepted(positions: readonly Position[]): void {
          if (settled) return
          settled = true
          giveBack(points - positions.length)
          for (const share of sharesOf(agent, positions)) {
            if (share.offset <= progress.appliedThrough(share.partition)) take(share)
            else {
              const shares = partitions.get(share.partition) ?? createByOffset<Share>()
              partitions.set(share.partition, shares)
              shares.add(share)
            }
          }
        },
        /** They are not, or that is unknown. After `accepted`, or the second time, it does nothing. */
        release(): void {
          if (settled) return
          settled = true
          giveBack(points)
        },
      }
    },
  }
}

function sharesOf(agent: AgentBacklog, positions: readonly Position[]): Share[] {
  const shares = new Map<number, Share>()
  for (const { partition, offset } of positions) {
    const share = shares.get(partition) ?? { agent, partition, offset, points: 0 }
    shares.set(partition, share)
    share.points += 1
    share.offset = Math.max(share.offset, offset)
  }
  return [...shares.values()]
}

function backlogFull(agent: AgentBacklog, now: number): AppError {
  const recent = agent.applied.filter((sample) => sample.at > now - rateWindowMs)
  const points = recent.reduce((sum, sample) => sum + sample.points, 0)
  const overS = recent.length > 0 ? Math.max(rateLeastS, (now - recent[0]!.at) / 1_000) : 0
  const tooMany = agent.points - backlogPointsMax
  const waitS = points === 0 ? standstillRetryS : (tooMany * overS) / points
  const message = 'Too many of your points wait to be applied: wait for retryAfter seconds.'
  const retryAfter = Math.min(retryMaxS, Math.max(0.05, Math.ceil(waitS * 100) / 100))
  return new AppError('backlog_full', message, { retryAfter })
}
