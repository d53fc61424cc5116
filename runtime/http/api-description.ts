/**
 * Serves `openapi.json`, made from the routes' schemas and what their scopes say, and a reference page. What each described
 * route must have is checked before its service answers anything.
 */

import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { createLru } from '#lib/lru.ts'
import { complete, type RouteFacts } from './api/describe.ts'
import type { Document } from './api/document.ts'
import { asShown, serverMark, unknownCases } from './api/facts.ts'
import { registerFrontPage } from './front-page.ts'
import { createPage, type Page, sendPage } from './page.ts'
import { registerReference } from './reference.ts'
import { limitedByAddress } from './strangers.ts'

/** Rates of one address: a browser loads a page once, and generators read the document once. */
export const pageRates = [
  { count: 20, windowMs: 1_000 },
  { count: 300, windowMs: 60_000 },
]
/** Callers may send any Host: the documents of the last few are kept. */
const addressesMax = 8

type AddedRoute = RouteOptions & { prefix: string }

export interface ApiDescription {
  /**
   * For example `/v1`; the description is at `<prefix>/openapi.json`, the page at `<prefix>/reference`. Empty for an interface
   * whose paths have no common beginning.
   */
  prefix: '' | `/${string}`
  title: string
  description: string
  version: string
  tags: { name: string; description: string }[]
  /** The path that `/` leads people to, in place of a page of its own. */
  front?: string
}

/**
 * Must be awaited before the routes that it shall describe are added. What they need is checked when the app gets ready:
 * an operationId, a summary, a tag of `api`, a list of problems, and titles for bodies and answers; a fault stops the start.
 */
export async function registerApiDescription(app: FastifyInstance, api: ApiDescription): Promise<void> {
  const routes: AddedRoute[] = []
  app.addHook('onRoute', (route) => {
    if (isDescribed(route)) routes.push(route)
  })
  app.addHook('onReady', (done) => {
    const faults = describedFaults(routes, api.tags)
    done(
      faults.length === 0 ? undefined : new Error(`The API description is not whole: ${faults.join('; ')}.`),
    )
  })
  await app.register(swagger, {
    convertConstToEnum: false,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: api.title,
        description: api.description,
        version: api.version,
        license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
      },
      tags: api.tags,
    },
    transform: ({ schema, url }) => ({ schema: asShown(schema), url }),
    transformObject: (made) => {
      if (!('openapiObject' in made)) throw new Error('the description is not OpenAPI 3')
      // The types of both describe the same document; ours names only the parts that the kit writes.
      complete(made.openapiObject as Document, configsOf(routes))
      return made.openapiObject
    },
  })
  await app.register(async (scope) => {
    limitedByAddress(scope, pageRates)
    registerDocument(scope, api.prefix)
    registerReference(scope, api)
    registerFrontPage(scope, api)
  })
}

/** Made once for each address that it is asked at. */
function registerDocument(app: FastifyInstance, prefix: ApiDescription['prefix']): void {
  let text: string | undefined
  const pages = createLru<string, Page>(addressesMax)
  app.get(`${prefix}/openapi.json`, { schema: { hide: true } }, (request, reply) => {
    const address = addressAsked(request)
    text ??= JSON.stringify(app.swagger())
    const page =
      pages.get(address) ??
      createPage('application/json; charset=utf-8', text.replaceAll(serverMark, address))
    pages.set(address, page)
    return sendPage(request, reply, page, { 'cache-control': 'no-cache' })
  })
}

function configsOf(routes: readonly AddedRoute[]): Map<string, RouteFacts> {
  return new Map(
    routes.map(({ schema, prefix, config: { sample, ...config } = {} }) => {
      const source = typeof sample === 'function' ? sample(prefix) : sample
      return [String(schema?.operationId), source === undefined ? config : { ...config, sample: source }]
    }),
  )
}

const plainHost = /^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?$/

/** The origin of the service as the caller reaches it; a Host that a shell could take for a command is none. */
function addressAsked({ protocol, host, socket }: FastifyRequest): string {
  return plainHost.test(host) ? `${protocol}://${host}` : `http://127.0.0.1:${socket.localPort}`
}

/** False for the automatic HEAD of a GET, and for hidden routes: probes, the description itself. */
function isDescribed({ method, schema }: RouteOptions): boolean {
  return method !== 'HEAD' && !schema?.hide
}

/** A sentence for everything that is missing. */
function describedFaults(routes: readonly RouteOptions[], tags: readonly { name: string }[]): string[] {
  const names = routes.map(({ schema }) => schema?.operationId)
  return routes.flatMap((route) => {
    const { method, url, schema = {}, config = {} } = route
    const { operationId = '', summary, body, response = {} } = schema
    const answers = Object.entries(response as Record<string, unknown>)
    const missing = [
      !/^[a-z][A-Za-z0-9]*$/.test(operationId) && 'an operationId in camelCase',
      names.indexOf(operationId) !== names.lastIndexOf(operationId) && 'an operationId of its own',
      !summary && 'a summary',
      !schema.tags?.every((tag) => tags.some(({ name }) => name === tag)) && 'known tags',
      !config.problems && 'config.problems, the error codes that it answers by itself',
      unknownCases(config).length > 0 && `statuses of the catalogue instead of ${unknownCases(config)}`,
      body !== undefined && !isTitled(body) && 'a title for its body',
      !answers.some(([status]) => status.startsWith('2')) && 'a successful answer',
      !answers.every(([, answer]) => isTitled(answer)) && 'a title for each answer',
    ]
    const found = missing.filter((one) => one !== false)
    return found.length === 0 ? [] : [`${method} ${url} needs ${found.join(', ')}`]
  })
}

/** A title that clients can make the name of a type of. */
function isTitled(schema: unknown): boolean {
  return /^[A-Z][A-Za-z0-9]*$/.test((asShown(schema) as { title?: string }).title ?? '')
}
