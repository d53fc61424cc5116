/** The table of roles: a route that is missing from it, or not behind a token, does not start. */

import fastify from 'fastify'
import { expect, test } from 'vitest'
import { describeScope } from '#runtime/http/api/facts.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { permissionsOf, requireEntries } from '#services/main-api/rbac.ts'

const credential = { name: 'x', description: 'x', bearerFormat: 'x', variable: 'X' }

test('a route that is not in the table is refused when it is added', () => {
  const app = fastify()
  requireEntries(app, { 'GET /known': 'open' })
  app.get('/known', () => 'ok')
  expect(() => app.get('/unknown', () => 'ok')).toThrow(/GET \/unknown is missing from the table/)
  expect(() => app.post('/known', () => 'ok')).toThrow(/POST \/known is missing/)
  expect(() => app.get('/toString', () => 'ok')).toThrow(/missing/)
})

test('a route that is not open has to ask for a token', async () => {
  const app = fastify()
  requireEntries(app, { 'GET /known': 'viewer', 'GET /guarded': 'admin' })
  app.get('/known', () => 'ok')
  await app.register(async (scope) => {
    describeScope(scope, { credential })
    scope.get('/guarded', () => 'ok')
  })
  await expect(app.ready()).rejects.toThrow(/GET \/known/)
})

test('whoever must change their password may do nothing else', () => {
  const person: Caller = {
    kind: 'person',
    uid: 'person_1',
    agentId: 'person_1',
    name: 'One',
    role: 'admin',
    access: 'admin',
    tier: 'agent',
    quota: null,
    burst: 20,
    concurrent: 20,
  }
  expect(permissionsOf(person)).toContain('POST /api/v1/agent-keys')
  expect(permissionsOf({ ...person, mustChangePassword: true })).toEqual([
    'GET /api/v1/me',
    'PUT /api/v1/me/password',
  ])
})
