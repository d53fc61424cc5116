/** Serves the console's built files: one page for every address below /console/, and what it loads. */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import files from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'

/** Where `npm run build` puts it. */
const builtConsole = join(import.meta.dirname, '../../console/dist')

/** Nothing of other hosts, no inline style or script, and no text that becomes a script. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const pageHeaders = {
  'content-security-policy': policy,
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

const notBuilt = 'The console is not built here. In the folder of the platform: npm run build\n'

/** `folder` holds index.html and assets/. Where it does not, the page says how to build it. */
export async function registerConsole(app: FastifyInstance, folder = builtConsole): Promise<void> {
  const page = join(folder, 'index.html')
  await app.register(
    async (scope) => {
      scope.setNotFoundHandler(() => {
        throw noSuchFile()
      })
      // Their names change with their content.
      await scope.register(files, {
        root: join(folder, 'assets'),
        prefix: '/',
        decorateReply: false,
        immutable: true,
        maxAge: '1y',
        index: false,
        preCompressed: true,
      })
    },
    { prefix: '/console/assets' },
  )
  const hidden = { schema: { hide: true } }
  app.get('/console', hidden, (_request, reply) => reply.redirect('/console/', 308))
  app.get('/console/*', hidden, (request, reply) => {
    // A file, no page.
    if (/^\/console\/[^/?]*\.[^/?]*(\?|$)/.test(request.url)) throw noSuchFile()
    if (!existsSync(page)) return reply.code(503).type('text/plain').send(notBuilt)
    return reply.headers(pageHeaders).type('text/html').send(readFileSync(page))
  })
}

function noSuchFile(): AppError {
  return new AppError('not_found', 'There is no such file.')
}
