/** /api/v1/asyncapi.json: the public topics for programs, and /api/v1/asyncapi: the same for people. Open, as openapi.json is. */

import type { FastifyInstance } from 'fastify'
import { loadSchemas } from '#lib/schema-files.ts'
import { pageRates } from '#runtime/http/api-description.ts'
import { createPage, type Page, sendPage } from '#runtime/http/page.ts'
import { limitedByAddress } from '#runtime/http/strangers.ts'
import { schemasDirectory } from '#runtime/publish/codec.ts'
import { catalog } from '#topics/catalog.ts'
import { asyncApiOf } from '../asyncapi/document.ts'
import { asyncApiPage, pageHeaders } from '../asyncapi/page.ts'
import type { MainApiContext } from '../operate.ts'

const hidden = { schema: { hide: true } }

/** Made again when a topic lives elsewhere. */
export function registerAsyncApi(
  scope: FastifyInstance,
  { publisher }: Pick<MainApiContext, 'publisher'>,
): void {
  const schemas = loadSchemas(schemasDirectory)
  let made: { locations: string; json: Page; html: Page } | undefined
  function pages() {
    const locations = JSON.stringify(catalog.map(publisher.locationOf))
    if (made?.locations === locations) return made
    const document = asyncApiOf({ topics: catalog, schemas, locationOf: publisher.locationOf })
    made = {
      locations,
      json: createPage('application/json; charset=utf-8', JSON.stringify(document)),
      html: createPage('text/html; charset=utf-8', asyncApiPage(document, 'asyncapi.json')),
    }
    return made
  }
  const revalidated = { 'cache-control': 'no-cache' }
  limitedByAddress(scope, pageRates)
  scope.get('/api/v1/asyncapi.json', hidden, (request, reply) =>
    sendPage(request, reply, pages().json, revalidated),
  )
  scope.get('/api/v1/asyncapi', hidden, (request, reply) =>
    sendPage(request, reply, pages().html, { ...pageHeaders, ...revalidated }),
  )
}
