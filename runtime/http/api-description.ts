/** Serves `openapi.json`, made from the routes' schemas, and a reference page that loads nothing from elsewhere. */

import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'

export interface ApiDescription {
  /** For example `/v1`; the description is at `<prefix>/openapi.json`, the page at `<prefix>/reference`. */
  prefix: `/${string}`
  title: string
  description: string
  version: string
  tags?: { name: string; description: string }[]
}

/** The page may load nothing from elsewhere. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:"

/** Must be awaited before the routes that it shall describe are added. */
export async function registerApiDescription(app: FastifyInstance, api: ApiDescription): Promise<void> {
  await app.register(swagger, {
    refResolver: { buildLocalReference: (schema) => String(schema.$id) },
    openapi: {
      openapi: '3.1.0',
      info: { title: api.title, description: api.description, version: api.version },
      ...(api.tags ? { tags: api.tags } : {}),
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    },
  })
  app.get(`${api.prefix}/openapi.json`, { schema: { hide: true } as object }, (_request, reply) =>
    reply.send(app.swagger()),
  )
  await registerReference(app, api)
}

async function registerReference(app: FastifyInstance, api: ApiDescription): Promise<void> {
  // Four megabytes of page: loaded by those services only that serve it.
  const { default: reference } = await import('@scalar/fastify-api-reference')
  await app.register(async (scope) => {
    scope.addHook('onRequest', (_request, reply, done) => {
      reply.header('content-security-policy', contentSecurityPolicy)
      done()
    })
    await scope.register(reference, {
      routePrefix: `${api.prefix}/reference`,
      configuration: {
        url: '../openapi.json',
        pageTitle: api.title,
        withDefaultFonts: false,
        telemetry: false,
      },
    })
  })
}
