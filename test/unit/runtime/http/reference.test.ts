/** What the reference page may do: it shares its origin with the console. */

import { hash } from 'node:crypto'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp, registerApiDescription } from '#runtime/http/app.ts'

async function opened() {
  const app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics: new Registry() })
  await registerApiDescription(app, { prefix: '/v1', title: 'T', description: 'D', version: '1', tags: [] })
  onTestFinished(() => app.close())
  return app
}

/** Directives by name. */
function policyOf(headers: Record<string, unknown>): Map<string, string[]> {
  const parts = String(headers['content-security-policy']).split('; ')
  return new Map(parts.map((part) => part.split(' ')).map(([name = '', ...sources]) => [name, sources]))
}

test.each(['/v1/reference', '/v1/reference/', '/v1/reference/js/scalar.js'])(
  '%s lies in no frame, has no form and no base, and is what its type says',
  async (url) => {
    const { headers } = await (await opened()).inject(url)
    const policy = policyOf(headers)
    for (const name of ['default-src', 'base-uri', 'form-action', 'frame-ancestors']) {
      expect(policy.get(name)).toEqual(["'none'"])
    }
    expect(headers['content-security-policy']).not.toContain('unsafe-')
    expect(headers['x-content-type-options']).toBe('nosniff')
  },
)

test('only the scripts that the page came with run, and only styles that have its nonce count', async () => {
  const { headers, body } = await (await opened()).inject('/v1/reference/')
  const policy = policyOf(headers)
  const inline = [...body.matchAll(/<script(?: [^>]*)?>([\s\S]*?)<\/script>/g)]
    .map(([, text = '']) => text)
    .filter((text) => text !== '')
  expect(inline).toHaveLength(2)
  expect(policy.get('script-src')).toEqual([
    "'self'",
    ...inline.map((text) => `'sha256-${hash('sha256', text, 'base64')}'`),
  ])
  const nonce = /<meta property="csp-nonce" content="([0-9a-f]{32})" \/>/.exec(body)?.[1]
  expect(policy.get('style-src')).toEqual(["'self'", `'nonce-${nonce}'`])
  // Before Scalar's own.
  expect(body.indexOf('made.nonce')).toBeLessThan(body.indexOf('js/scalar.js'))
})

test('each page has a nonce of its own', async () => {
  const [one, two] = await Promise.all([opened(), opened()])
  const policies = await Promise.all(
    [one, two].map(async (app) => (await app.inject('/v1/reference/')).headers),
  )
  expect(new Set(policies.map(({ 'content-security-policy': policy }) => policy)).size).toBe(2)
  const again = await one.inject({
    url: '/v1/reference/',
    headers: { 'if-none-match': String(policies[0]!.etag) },
  })
  expect([again.statusCode, again.headers['content-security-policy']]).toEqual([
    304,
    policies[0]!['content-security-policy'],
  ])
})
