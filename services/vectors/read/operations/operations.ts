/** Says how far an operation is, by its id: accepted, applied or failed; and waits for it. */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Position, Publisher } from '#runtime/publish/messages.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { lastPositions, type Operation, type OperationIds } from './operation-id.ts'
import type { IndexProgress, Progress } from './progress.ts'

const waitMs = 10_000

export type OperationState =
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
