/** What is recalled by a text, and what of the platform's own notes is left out of it. */

import { expect, test } from 'vitest'
import { auditedOperations, withoutAuditNotes } from '../src/audit-notes.ts'
import { createClient } from '../src/client.ts'

const key = 'gateway-key'
const audited = auditedOperations.map((value) => ({ key: 'operation', match: { value } }))
const is = (name: string, value: string) => ({ key: name, match: { value } })

test('a search in fleet_notes leaves audit notes out, together with what its own filter says', () => {
  expect(withoutAuditNotes('fleet_notes')).toEqual({ must_not: audited })
  const filter = { must: [is('status', 'active')], must_not: [is('tags', 'low')] }
  expect(withoutAuditNotes('fleet_notes', filter)).toEqual({
    must: filter.must,
    must_not: [is('tags', 'low'), ...audited],
  })
})

test('a filter that asks for audit notes, and one for another collection, stay as they are', () => {
  for (const condition of [is('tags', 'auth'), is('tags', 'vector'), is('operation', 'search')]) {
    const filter = { must: [is('status', 'resolved'), condition] }
    expect(withoutAuditNotes('fleet_notes', filter)).toBe(filter)
  }
  expect(withoutAuditNotes('posts')).toBeUndefined()
  const filter = { must: [is('status', 'active')] }
  expect(withoutAuditNotes('posts', filter)).toBe(filter)
})

test('recall searches by the text, without audit notes', async () => {
  const { privateKey } = await import('node:crypto').then(({ generateKeyPairSync }) =>
    generateKeyPairSync('ed25519'),
  )
  const sent: Record<string, unknown>[] = []
  const answers: Record<string, object> = {
    '/v1/auth/handshake': { server_nonce: 'cafe', public_key_fingerprint: 'SHA256:x' },
    '/v1/auth/verify': { api_key: key, expires_in: 3_600 },
    '/v1/vectors/search': { results: [{ id: 'note-1', score: 0.9 }], took_ms: 1, records_scanned: 1 },
  }
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    agentId: 'whale',
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    fetch: (async (input: string | URL | Request, init: RequestInit = {}) => {
      const { pathname } = new URL(String(input))
      const body = JSON.parse(String(init.body)) as Record<string, unknown>
      if (pathname.startsWith('/v1/auth/')) {
        return Response.json({ ...answers[pathname], client_nonce: body.nonce })
      }
      sent.push({ path: pathname, ...body })
      return Response.json(answers[pathname])
    }) as typeof fetch,
  })
  const { results } = await client.recall('fleet_notes', 'Is it repaired?', { limit: 3 })
  expect(results.map(({ id }) => id)).toEqual(['note-1'])
  expect(sent).toEqual([
    {
      path: '/v1/vectors/search',
      collection: 'fleet_notes',
      text: 'Is it repaired?',
      limit: 3,
      filter: { must_not: audited },
    },
  ])
})
