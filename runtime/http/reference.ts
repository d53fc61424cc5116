/** The reference page of an interface: the description, readable, with requests to paste. Loads nothing from elsewhere. */

import { hash } from 'node:crypto'
import fastify, { type FastifyInstance } from 'fastify'
import { randomHex } from '#lib/ids.ts'
import { createPage, type Page, sendPage } from './page.ts'

/** Nothing from elsewhere, in no frame of others: where the console is, the page shares its origin. */
const nothingElse = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
const mayLoad =
  "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:"

const ofAll = {
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const

/** Gives styles that Scalar makes the page's nonce: it does so itself for the first of them only. */
const nonceForStyles = `{
      const { content } = document.querySelector('meta[property=csp-nonce]')
      const create = document.createElement
      document.createElement = function (...given) {
        const made = create.apply(this, given)
        if (made instanceof HTMLStyleElement) made.nonce = content
        return made
      }
    }`

/** Nothing of the maker's cloud: no hosted client, no assistant, no upload, no figures sent. */
const withoutCloud = {
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
} as const

/** Files by their paths below the page's own. */
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
  const ofRedirect = { ...ofAll, 'content-security-policy': nothingElse }
  app.get(routePrefix, hidden, (_request, reply) =>
    reply.headers(ofRedirect).redirect(`${routePrefix}/`, 301),
  )
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
      return sendPage(request, reply, await page, { 'cache-control': 'no-cache' })
    })
  }
}

async function makePage(routePrefix: `/${string}`, title: string, path: string): Promise<Page> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const nonce = randomHex(16)
  const maker = fastify()
  await maker.register(reference, {
    routePrefix,
    configuration: {
      url: '../openapi.json',
      pageTitle: title,
      nonce,
      // The description's own request, made of real values, is the one to paste.
      hiddenClients: true,
      ...withoutCloud,
    },
  })
  const { headers, body } = await maker.inject(`${routePrefix}${path}`)
  await maker.close()
  const type = String(headers['content-type'])
  if (path !== '/') return createPage(type, body, { ...ofAll, 'content-security-policy': nothingElse })
  const html = body.replace('</head>', `<script>${nonceForStyles}</script>\n  </head>`)
  return createPage(type, html, { ...ofAll, 'content-security-policy': policyOf(html, nonce) })
}

/** Scripts within the page are named by their hashes: the nonce, the same for all who have the page, is for styles alone. */
function policyOf(html: string, nonce: string): string {
  const scripts = html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g)
  const hashes = [...scripts].map(([, text = '']) => `'sha256-${hash('sha256', text, 'base64')}'`)
  return `${nothingElse}; script-src 'self' ${hashes.join(' ')}; style-src 'self' 'nonce-${nonce}'; ${mayLoad}`
}
