/** `/` of an interface: says to people whose port this is and where to go on. */

import type { FastifyInstance } from 'fastify'

const headers = {
  'cache-control': 'no-cache',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  vary: 'accept',
}

/** With `front` it leads there instead. Programs that do not ask for HTML get the same as JSON. */
export function registerFrontPage(
  app: FastifyInstance,
  api: { title: string; description: string; prefix: string; front?: string },
): void {
  const { title, description, prefix, front } = api
  app.get('/', { schema: { hide: true } }, (request, reply) => {
    if (front !== undefined) return reply.redirect(front, 302)
    const links = {
      reference: `${prefix}/reference`,
      description: `${prefix}/openapi.json`,
      console: app.process.consoleUrl,
    }
    reply.headers(headers)
    if (!request.headers.accept?.includes('text/html')) return { name: title, ...links }
    return reply.type('text/html; charset=utf-8').send(pageOf(title, description, links))
  })
}

interface Links {
  reference: string
  description: string
  console: string | undefined
}

function pageOf(
  title: string,
  description: string,
  { reference, description: document, console }: Links,
): string {
  const items = [
    `<li><a href="${html(reference)}">Reference</a>: every request, with examples`,
    `<li><a href="${html(document)}">OpenAPI description</a>`,
    ...(console === undefined ? [] : [`<li><a href="${html(console)}">Console</a>: the platform for people`]),
  ]
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${html(title)}</title><style>body{font:1rem/1.5 system-ui;max-width:42rem;margin:3rem auto;padding:0 1rem}</style>
<h1>${html(title)}</h1><p>${html(description)}</p><ul>${items.join('')}</ul></html>
`
}

function html(text: string): string {
  return text.replace(/[&<>"']/g, (found) => `&#${found.charCodeAt(0)};`)
}
