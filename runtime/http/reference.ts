/** The reference page of an interface: the description, readable, with requests to paste. Loads nothing from elsewhere. */

import type { FastifyInstance } from 'fastify'

/** The page may load nothing from elsewhere. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:"

/** Nothing of the maker's cloud: no hosted client, no assistant, no upload, no figures sent. */
const withoutCloud = {
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
} as const

export async function registerReference(
  app: FastifyInstance,
  { prefix, title }: { prefix: `/${string}`; title: string },
): Promise<void> {
  // Four megabytes of page: loaded by those services only that serve it.
  const { default: reference } = await import('@scalar/fastify-api-reference')
  await app.register(async (scope) => {
    scope.addHook('onRequest', (_request, reply, done) => {
      reply.header('content-security-policy', contentSecurityPolicy)
      done()
    })
    await scope.register(reference, {
      routePrefix: `${prefix}/reference`,
      configuration: {
        url: '../openapi.json',
        pageTitle: title,
        // The description's own request, made of real values, is the one to paste.
        hiddenClients: true,
        ...withoutCloud,
      },
    })
  })
}
