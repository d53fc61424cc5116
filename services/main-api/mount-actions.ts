/** Mounts actions as routes of the main API: their fields, roles, answers and description follow from the declaration. */

import type { FastifyInstance } from 'fastify'
import { type TProperties, type TSchema, Type } from 'typebox'
import type { Cached } from '#lib/cached.ts'
import type { Action, Http } from '#operations/action.ts'
import { placeOf } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { MainApi } from './main-api.ts'
import { type MainApiContext, operate } from './operate.ts'
import { closed, numberBetween, wholeNumber } from './schemas.ts'

/** `cached`: by the names of actions without arguments, what many look at: one answer serves all for a moment. */
export function mountActions(
  scope: FastifyInstance,
  { context }: MainApi,
  actions: readonly Action[],
  cached: Readonly<Record<string, Cached<unknown>>> = {},
): void {
  for (const action of actions) {
    if (action.http) mount(scope, context, action, action.http, cached[action.name])
  }
}

function mount(
  scope: FastifyInstance,
  context: MainApiContext,
  action: Action,
  http: Http<Action['args'], unknown>,
  cached: Cached<unknown> | undefined,
): void {
  const { method, path, operationId, tag, problems, description, answer, status = 200 } = http
  const all = { ...action.args.properties, ...http.fields } as TProperties
  const isInPath = (name: string) => path.split('/').includes(`:${name}`)
  const params = some(all, isInPath)
  const rest = some(all, (name) => !isInPath(name))
  const inQuery = method === 'GET' || method === 'DELETE'
  scope.route({
    method,
    url: path,
    config: {
      problems: ['forbidden', ...problems],
      ...(http.sample === undefined ? {} : { sample: http.sample }),
    },
    schema: {
      operationId,
      tags: [tag],
      summary: action.summary,
      ...(description === undefined ? {} : { description }),
      ...(isEmpty(params) ? {} : { params: Type.Object(params, closed) }),
      ...(inQuery && !isEmpty(rest) ? { querystring: Type.Object(asTexts(rest), closed) } : {}),
      ...(inQuery || isEmpty(rest) ? {} : { body: Type.Object(rest, { ...closed, ...http.body }) }),
      response: { [status]: answer },
    },
    async handler(request, reply) {
      const given = inQuery ? numbersOf(rest, request.query as object) : (request.body as object)
      const args = { ...given, ...(request.params as object) }
      const result = await (cached ? cached.get() : operate(context, request, action, args))
      reply.code(status).headers(http.headers?.(result, placeOf(request)) ?? {})
      return http.view ? http.view(result, { args, caller: callerOf(request) }) : result
    },
  })
}

function some(all: TProperties, isWanted: (name: string) => boolean): TProperties {
  return Object.fromEntries(Object.entries(all).filter(([name]) => isWanted(name)))
}

function isEmpty(properties: TProperties): boolean {
  return Object.keys(properties).length === 0
}

interface NumberSchema {
  type?: string
  minimum?: number
  maximum?: number
  description?: string
  examples?: unknown[]
}

const isWhole = (schema: TSchema) => (schema as NumberSchema).type === 'integer'

/** Queries are text. */
function asTexts(properties: TProperties): TProperties {
  const texts = Object.entries(properties).map(([name, schema]) => {
    if (!isWhole(schema)) return [name, schema]
    const { description = '', examples = ['1'] } = schema as NumberSchema
    const text = wholeNumber(description, String(examples[0]))
    return [name, Type.IsOptional(schema) ? Type.Optional(text) : text]
  })
  return Object.fromEntries(texts)
}

/** Throws AppError `validation_failed` for a number that is out of its range. */
function numbersOf(properties: TProperties, query: object): object {
  const read = Object.entries(query).map(([name, text]) => {
    const schema = properties[name]
    if (!schema || !isWhole(schema)) return [name, text]
    const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema as NumberSchema
    return [name, numberBetween(minimum, maximum, name, text)]
  })
  return Object.fromEntries(read)
}
