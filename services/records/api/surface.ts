/** How an interface serves notes and goals: the hub bare, the main API in its envelope and with who did what. */

import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import type { Static, TObject, TSchema } from 'typebox'
import type { Relational, SqlExecutor, SqlTransaction } from '#engines/relational/port.ts'
import type { OutboxBell } from '#runtime/publish/wake-outbox.ts'
import type { Author, RecordKind, RecordRow } from '#services/records/store/kind.ts'
import type { RecordHeaders } from '#services/records/store/write.ts'

/** Runs in the transaction of a change; `before` is null for a new row. */
export type Written<Row> = (tx: SqlTransaction, before: Row | null, after: Row) => Promise<void>

export interface Surface {
  /** Before every path; '' at the hub. */
  prefix: '' | `/${string}`
  /** In operationIds, which are unique over all interfaces: `list<mark>Notes`. */
  mark: string
  register(scope: FastifyInstance, route: RouteOptions): void
  schemaOf(data: TSchema): TSchema
  answer(data: object): object
  /** Runs a change; `id` is absent for a new record. `work` passes `written` on, where it gets one. */
  change<Row extends RecordRow>(
    request: FastifyRequest,
    kind: RecordKind,
    id: number | undefined,
    work: (written?: Written<Row>) => Promise<Row>,
  ): Promise<Row>
}

/** Every path with and without a slash at its end; who changed what is in the records alone. */
export function hubSurface(bell: OutboxBell): Surface {
  return {
    prefix: '',
    mark: '',
    register: bothWays,
    schemaOf: (data) => data,
    answer: (data) => data,
    async change(_request, _kind, _id, work) {
      const row = await work()
      bell.ring()
      return row
    },
  }
}

/** Registers the route with and without a slash at its end; the description shows the one without. */
function bothWays(scope: FastifyInstance, route: RouteOptions): void {
  scope.route({ ...route })
  scope.route({ ...route, url: `${route.url}/`, schema: { ...route.schema, hide: true } })
}

/** Ids of what a request makes: the same however often it runs under one Idempotency-Key. */
export interface CreationIds {
  creationKey?: string
  newThreadId?: string
}

/** The part of a resource that makes its rows. `New` is the shape of what they are made of. */
export interface Creator<Row, New extends TObject> {
  create(
    executor: SqlExecutor,
    body: Static<New>,
    by: Author,
    ids: CreationIds,
    headers: RecordHeaders,
  ): Promise<Row>
}

export interface Creation<Row, New extends TObject> {
  body: Static<New>
  by: Author
  ids?: CreationIds
  headers?: RecordHeaders
  written?: Written<Row> | undefined
}

/** Wake the outbox-publisher afterwards. Throws what the resource's rules forbid; then nothing was made. */
export function createRecord<Row extends RecordRow, New extends TObject>(
  relational: Relational,
  resource: Creator<Row, New>,
  { body, by, ids = {}, headers = {}, written }: Creation<Row, New>,
): Promise<Row> {
  if (!written) return resource.create(relational, body, by, ids, headers)
  return relational.transaction(async (tx) => {
    const row = await resource.create(tx, body, by, ids, headers)
    await written(tx, null, row)
    return row
  })
}
