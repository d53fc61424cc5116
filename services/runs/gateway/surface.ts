/** How an interface serves runs and dispatches: the run gateway bare, the main API in its envelope. */

import type { FastifyRequest } from 'fastify'
import type { TSchema } from 'typebox'

export interface RunSurface {
  /** Before every path; '' at the run gateway. */
  prefix: '' | `/${string}`
  /** In operationIds, which are unique over all interfaces: `list<mark>Runs`. */
  mark: string
  schemaOf(data: TSchema): TSchema
  answer(data: object): object
  /**
   * Runs a change of what `target` names, and notes who did it where the interface does so. `named` says what it made, which
   * is the target then.
   */
  change<T>(
    request: FastifyRequest,
    action: string,
    target: string,
    work: (named: (target: string) => void) => Promise<T>,
  ): Promise<T>
}

export const bareSurface: RunSurface = {
  prefix: '',
  mark: '',
  schemaOf: (data) => data,
  answer: (data) => data,
  change: (_request, _action, _target, work) => work(() => {}),
}
