/** The reference page of an interface: the description, readable, with requests to paste. Loads nothing from elsewhere. */

import fastify, { type FastifyInstance } from 'fastify'
import { createPage, type Page, sendPage } from './page.ts'

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

/** Paths below the page's own, and what is there. */
const files = ['/', '/js/scalar.js'] as const

export type ReferencePages = Map<string, Promise<Page>>

/**
 * The library and its page of four megabytes are loaded when somebody asks for them: a start does not wait for it. Each is
 * made once, what is the same at all interfaces once for a process.
 */
export function registerReference(
  app: FastifyInstance,
  { prefix, title }: { prefix: '' | `/${string}`; title: string },
): void {
  const pages = app.process.reference
  const routePrefix = `${prefix}/reference` as const
  const hidden = { schema: { hide: true } }
  const policy = { 'content-security-policy': contentSecurityPolicy }
  app.get(routePrefix, hidden, (_request, reply) => reply.headers(policy).redirect(`${routePrefix}/`, 301))
  for (const path of files) {
    const key = path === '/' ? `${routePrefix} ${title}` : path
    app.get(`${routePrefix}${path}`, hidden, async (request, reply) => {
      let page = pages.get(key)
      if (!page) {
        page = makePage(routePrefix, title, path)
        // One that could not be made is made again.
        page.catch(() => pages.delete(key))
        pages.set(key, page)
      }
      return sendPage(request, reply, await page, { ...policy, 'cache-control': 'no-cache' })
    })
  }
}

async function makePage(routePrefix: `/${string}`, title: string, path: string): Promise<Page> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const maker = fastify()
  await maker.register(reference, {
    routePrefix,
    configuration: {
      url: '../openapi.json',
      pageTitle: title,
      // The description's own request, made of real values, is the one to paste.
      hiddenClients: true,
      ...withoutCloud,
    },
  })
  const { headers, rawPayload } = await maker.inject(`${routePrefix}${path}`)
  await maker.close()
  return createPage(String(headers['content-type']), rawPayload)
}
