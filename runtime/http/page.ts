/** Answers that are the same for many callers: made once, compressed once for each encoding, known by their ETag. */

import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, gzip, constants as zlib } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

export type Encoding = 'br' | 'gzip' | 'identity'

export type Page = ReturnType<typeof createPage>

/** A shorter one would not become shorter. */
const compressedBytesMin = 256
/** Higher ones take seconds for megabytes and save a few percent. */
const brotliQuality = 5

const compress = {
  br: (body: Buffer) =>
    promisify(brotliCompress)(body, { params: { [zlib.BROTLI_PARAM_QUALITY]: brotliQuality } }),
  gzip: (body: Buffer) => promisify(gzip)(body),
}

/** `headers` are sent with it, and with a 304. */
export function createPage(
  type: string,
  text: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
) {
  const whole = Buffer.from(text)
  const tag = hash('sha256', whole, 'base64url').slice(0, 22)
  const made = new Map<Encoding, Promise<Buffer>>([['identity', Promise.resolve(whole)]])
  return {
    type,
    headers,
    /** ETag of its body in this encoding. */
    etag: (encoding: Encoding): string => (encoding === 'identity' ? `"${tag}"` : `"${tag}-${encoding}"`),
    /** Compressed at the first call, off the event loop. */
    body(encoding: Encoding): Promise<Buffer> {
      if (whole.length < compressedBytesMin || encoding === 'identity') return made.get('identity')!
      const known = made.get(encoding) ?? compress[encoding](whole)
      made.set(encoding, known)
      return known
    },
  }
}

/** Answers 200, or 304 to who has the page already. `headers` are sent with both, as the page's own are. */
export async function sendPage(
  request: FastifyRequest,
  reply: FastifyReply,
  page: Page,
  headers: Readonly<Record<string, string>> = {},
): Promise<FastifyReply> {
  const wanted = encodingOf(request.headers['accept-encoding'])
  const body = await page.body(wanted)
  const encoding = body === (await page.body('identity')) ? 'identity' : wanted
  const etag = page.etag(encoding)
  reply.headers({ ...page.headers, ...headers, etag, vary: 'accept-encoding' })
  if (isKnown(request.headers['if-none-match'], etag)) return reply.code(304).send()
  if (encoding !== 'identity') reply.header('content-encoding', encoding)
  return reply.type(page.type).send(body)
}

/** The shortest encoding that the caller takes (RFC 9110); what it does not name it does not get. */
export function encodingOf(accepted: string | undefined): Encoding {
  const taken = new Set<string>()
  for (const part of (accepted ?? '').toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
    const quality = parameters.find((one) => one.startsWith('q='))?.slice(2)
    if (quality === undefined || Number(quality) > 0) taken.add(name)
  }
  if (taken.has('br')) return 'br'
  return taken.has('gzip') || taken.has('x-gzip') ? 'gzip' : 'identity'
}

/** If-None-Match compares weakly. */
function isKnown(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false
  if (given.trim() === '*') return true
  return given.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
}
