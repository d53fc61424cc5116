/** /api/v1/asyncapi.json: the public topics for programs, and /api/v1/asyncapi: the same for people. Open, as openapi.json is. */

import type { FastifyInstance } from 'fastify'
import { loadSchemas } from '#lib/schema-files.ts'
import { schemasDirectory } from '#runtime/codec.ts'
import { catalog } from '#topics/catalog.ts'
import { asyncApiOf } from '../asyncapi/document.ts'
import { asyncApiPage, pageHeaders } from '../asyncapi/page.ts'
import type { MainApiContext } from '../context.ts'

const hidden = { schema: { hide: true } }

/** Made for each request: where a topic lives may change. */
export function registerAsyncApi(
  app: FastifyInstance,
  { publisher }: Pick<MainApiContext, 'publisher'>,
): void {
  const schemas = loadSchemas(schemasDirectory)
  const document = () => asyncApiOf({ topics: catalog, schemas, locationOf: publisher.locationOf })
  app.get('/api/v1/asyncapi.json', hidden, (_request, reply) =>
    reply.header('cache-control', 'no-cache').type('application/json').send(JSON.stringify(document())),
  )
  app.get('/api/v1/asyncapi', hidden, (_request, reply) =>
    reply
      .headers({ ...pageHeaders, 'cache-control': 'no-cache' })
      .type('text/html; charset=utf-8')
      .send(asyncApiPage(document(), 'asyncapi.json')),
  )
}
