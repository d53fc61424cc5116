/** The reference page of an interface: the description, readable, with requests to paste. Loads nothing from elsewhere. */

import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'

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

/** Headers of the page that depend on what it is, not on this connection. */
const keptHeaders = ['content-type', 'location', 'cache-control', 'etag'] as const

/** The library and its page of four megabytes are loaded when somebody asks for them: a start does not wait for it. */
export function registerReference(
  app: FastifyInstance,
  { prefix, title }: { prefix: '' | `/${string}`; title: string },
): void {
  const routePrefix = `${prefix}/reference` as const
  let pages: Promise<FastifyInstance> | undefined
  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    pages ??= openPages(routePrefix, title)
    const page = await (await pages).inject({ method: 'GET', url: request.url })
    for (const name of keptHeaders) {
      const value = page.headers[name]
      if (value !== undefined) reply.header(name, value)
    }
    return reply
      .code(page.statusCode)
      .header('content-security-policy', contentSecurityPolicy)
      .send(page.rawPayload)
  }
  for (const path of [routePrefix, `${routePrefix}/*`]) app.get(path, { schema: { hide: true } }, answer)
}

async function openPages(routePrefix: `/${string}`, title: string): Promise<FastifyInstance> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const pages = fastify()
  await pages.register(reference, {
    routePrefix,
    configuration: {
      url: '../openapi.json',
      pageTitle: title,
      // The description's own request, made of real values, is the one to paste.
      hiddenClients: true,
      ...withoutCloud,
    },
  })
  return pages
}
