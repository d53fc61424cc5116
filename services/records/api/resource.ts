/** The routes that notes and goals have in common: list, make, show and change. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Static, TObject, TProperties, TSchema } from 'typebox'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { ErrorCode } from '#lib/errors.ts'
import { answers } from '#runtime/http/answers.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { linkNext, type PageParameters, page, placeOf, readPage } from '#runtime/http/paging.ts'
import { around, sendRows } from '#runtime/http/send-rows.ts'
import type { RunChange } from '#services/access/admin-audit/admin-audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import {
  type Author,
  authorOf,
  notedBy,
  type RecordKind,
  type RecordRow,
  targetOf,
  type Written,
} from '#services/records/store/kind.ts'
import { beginRecords, notThere, type PageQuery, readRecord } from '#services/records/store/read.ts'
import type { RecordHeaders } from '#services/records/store/write.ts'
import { changeRecord } from '#services/records/store/write.ts'
import { changeHeaders, closedObject, idParams } from './schemas.ts'

function etagOf(version: number): string {
  return `"${version}"`
}

/**
 * What the header accepts; undefined where there is none. Tags are compared strongly (RFC 9110 §13.1.1), so that a weak one
 * never fits.
 */
function versionCheck(ifMatch: string | undefined): ((version: number) => boolean) | undefined {
  if (ifMatch === undefined) return undefined
  if (ifMatch.trim() === '*') return () => true
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return (version) => tags.includes(etagOf(version))
}

/** `New` is the shape of what rows are made of. */
export interface Resource<Row extends RecordRow, New extends TObject = TObject> {
  kind: RecordKind
  path: string
  tag: string
  /** For operationIds: `Note` and `Notes`. */
  names: { one: string; many: string }
  bodyBytesMax: number
  schemas: {
    record: TSchema
    list: TSchema
    creation: New
    change: TObject
    filters: TProperties
  }
  creationText: string
  changeText: string
  creationProblems: readonly ErrorCode[]
  changeProblems: readonly ErrorCode[]
  view(row: Row): object
  /** Its JSON, by the schema of a record. */
  textOf(view: object): string
  create(
    executor: SqlExecutor,
    body: Static<New>,
    by: Author,
    ids: CreationIds,
    headers: RecordHeaders,
  ): Promise<Row>
}

/** Ids of what a request makes: the same however often it runs under one Idempotency-Key. */
interface CreationIds {
  creationKey?: string
  newThreadId?: string
}

/** What the routes work with. */
export interface ResourceParts {
  relational: Relational
  change: RunChange
  log: Logger
}

export function registerResource<Row extends RecordRow, New extends TObject>(
  scope: FastifyInstance,
  parts: ResourceParts,
  resource: Resource<Row, New>,
): void {
  registerReads(scope, parts, resource)
  registerCreation(scope, parts, resource)
  registerChange(scope, parts, resource)
}

function registerReads<Row extends RecordRow, New extends TObject>(
  scope: FastifyInstance,
  parts: ResourceParts,
  resource: Resource<Row, New>,
): void {
  const { kind, path, tag, names, schemas, view } = resource
  scope.route({
    method: 'GET',
    url: path,
    config: { problems: ['forbidden'] },
    schema: {
      operationId: `list${names.many}`,
      tags: [tag],
      summary: `List ${tag}, the newest first`,
      querystring: closedObject({ ...page, ...schemas.filters }),
      response: { 200: schemas.list },
    },
    async handler(request, reply) {
      const { limit, cursor, ...filters } = request.query as PageParameters & Record<string, string>
      const pageOf = readPage({ ...(limit ? { limit } : {}), ...(cursor ? { cursor } : {}) })
      return answerPage(request, reply, parts, resource, { filters, ...pageOf })
    },
  })
  scope.route({
    method: 'GET',
    url: `${path}/:id`,
    config: { problems: ['forbidden', 'not_found'] },
    schema: {
      operationId: `get${names.one}`,
      tags: [tag],
      summary: `Show a ${kind.name}`,
      description: 'The answer has its version as `ETag`.',
      params: idParams,
      response: { 200: schemas.record },
    },
    async handler(request, reply) {
      const row = await readRecord<Row>(parts.relational, kind, idOf(kind, request))
      reply.header('etag', etagOf(row.version))
      return view(row)
    },
  })
}

/** Rows are read as the reader takes them, within the budget of all answers. */
export function answerPage<Row extends RecordRow>(
  request: FastifyRequest,
  reply: FastifyReply,
  { relational }: ResourceParts,
  { kind, view, textOf }: Pick<Resource<Row>, 'kind' | 'view' | 'textOf'>,
  query: PageQuery,
): Promise<object> {
  return answers.hold(request, reply, async () => {
    const { whole, pieces, next } = await beginRecords<Row>(relational, kind, query)
    linkNext(request, reply, next)
    if (whole) return whole.map(view)
    return sendRows(reply, { ...around(reply), textOf: (row) => textOf(view(row)), pieces })
  })
}

function registerCreation<Row extends RecordRow, New extends TObject>(
  scope: FastifyInstance,
  parts: ResourceParts,
  resource: Resource<Row, New>,
): void {
  const { kind, path, tag, names, schemas, view } = resource
  const { relational, change } = parts
  async function make(request: FastifyRequest, reply: FastifyReply, seed: string | undefined) {
    const ids =
      seed === undefined
        ? {}
        : { creationKey: idOfSeed(seed, kind.name), newThreadId: idOfSeed(seed, 'thread') }
    const by = authorOf(callerOf(request))
    const body = request.body as Static<New>
    const headers = recordHeaders(request)
    const named = { action: `${kind.name}.create`, target: kind.name }
    const row = await change(request, named, (notes) =>
      createRecord(relational, resource, {
        body,
        by,
        ids,
        headers,
        written: notes && notedBy<Row>(kind, notes),
      }),
    )
    reply.code(201)
    return { record: view(row), id: row.id, version: row.version }
  }
  scope.route({
    method: 'POST',
    url: path,
    bodyLimit: resource.bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: kind.name,
      problems: ['forbidden', ...resource.creationProblems, ...idempotencyProblems],
    },
    schema: {
      operationId: `create${names.one}`,
      tags: [tag],
      summary: `Make a ${kind.name}`,
      description: `${resource.creationText} The answer has \`Location\` and \`ETag\`. With an Idempotency-Key header a repeated request gets the first answer again.`,
      headers: idempotencyHeaders,
      body: schemas.creation,
      response: { 201: schemas.record },
    },
    async handler(request, reply) {
      const made = await idempotent(parts, request, reply, (seed) => make(request, reply, seed))
      reply.header('location', `${placeOf(request)}/${made.id}`)
      reply.header('etag', etagOf(made.version))
      return made.record
    },
  })
}

interface Creation<Row, New extends TObject> {
  body: Static<New>
  by: Author
  ids?: CreationIds
  headers?: RecordHeaders
  written?: Written<Row> | undefined
}

/** Wake the outbox-publisher afterwards. Throws what the resource's rules forbid; then nothing was made. */
export function createRecord<Row extends RecordRow, New extends TObject>(
  relational: Relational,
  resource: Pick<Resource<Row, New>, 'create'>,
  { body, by, ids = {}, headers = {}, written }: Creation<Row, New>,
): Promise<Row> {
  if (!written) return resource.create(relational, body, by, ids, headers)
  return relational.transaction(async (tx) => {
    const row = await resource.create(tx, body, by, ids, headers)
    await written(tx, null, row)
    return row
  })
}

function registerChange<Row extends RecordRow, New extends TObject>(
  scope: FastifyInstance,
  parts: ResourceParts,
  resource: Resource<Row, New>,
): void {
  const { kind, path, tag, names, schemas, view } = resource
  const { relational, change } = parts
  scope.route({
    method: 'PATCH',
    url: `${path}/:id`,
    bodyLimit: resource.bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      problems: [
        'forbidden',
        'not_found',
        'precondition_failed',
        'invalid_transition',
        ...resource.changeProblems,
      ],
    },
    schema: {
      operationId: `change${names.one}`,
      tags: [tag],
      summary: `Change a ${kind.name}`,
      description: resource.changeText,
      params: idParams,
      headers: changeHeaders,
      body: schemas.change,
      response: { 200: schemas.record },
    },
    async handler(request, reply) {
      const isVersion = versionCheck(request.headers['if-match'])
      const id = idOf(kind, request)
      const named = { action: `${kind.name}.change`, target: targetOf(kind, id) }
      const row = await change(request, named, (notes) =>
        changeRecord<Row>(relational, kind, {
          id,
          changes: request.body as Record<string, string>,
          by: authorOf(callerOf(request)),
          headers: recordHeaders(request),
          ...(isVersion ? { isVersion } : {}),
          ...(notes ? { written: notedBy<Row>(kind, notes) } : {}),
        }),
      )
      reply.header('etag', etagOf(row.version))
      return view(row)
    },
  })
}

/** Throws AppError `not_found` for what cannot be an id. */
export function idOf(kind: RecordKind, request: FastifyRequest): number {
  const { id } = request.params as { id: string }
  const number = /^[1-9]\d{0,15}$/.test(id) ? Number(id) : Number.NaN
  if (Number.isSafeInteger(number)) return number
  throw notThere(kind, id)
}
