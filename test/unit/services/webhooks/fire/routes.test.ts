/** Secrets that callers send by mistake come back in no answer, no log line and no record. */

import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp, recordHeaders } from '#runtime/http/app.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import { chooseTargets, namesOf } from '#services/webhooks/fire/events/deliveries.ts'
import { keepSecretsOut } from '#services/webhooks/fire/routes.ts'
import { openOtlpReceiver } from '../../../../support/otlp-receiver.ts'

const secret = '0123456789abcdef0123456789abcdef'

function openApp(tracing?: Tracing) {
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  const app = createHttpApp({ name: 'relay', log, metrics: new Registry(), loopbackOnly: true, tracing })
  keepSecretsOut(app, () => [secret])
  app.get<{ Querystring: { targets?: string } }>('/fire', (request) => {
    chooseTargets({ targets: new Map() }, { event: 'e', agent: 'a' }, namesOf(request.query.targets))
    return recordHeaders(request)
  })
  onTestFinished(() => app.close())
  return { app, lines }
}

const headers = {
  host: 'localhost',
  'x-request-id': `job-${secret}`,
  traceparent: `00-${secret}-00f067aa0ba902b7-01`,
}

test.each([
  ['accepted', '/fire', headers, 200],
  ['refused by the route', `/fire?targets=${secret}`, headers, 400],
  ['unknown', `/fire/${secret}`, headers, 404],
  ['refused before it came to the route', '/fire', { ...headers, host: 'evil.example' }, 403],
])('of a request that is %s', async (_, url, sent, status) => {
  const { app, lines } = openApp()
  const answer = await app.inject({ url, headers: sent })
  expect(answer.statusCode).toBe(status)
  expect(JSON.stringify([answer.headers, answer.body, lines])).not.toContain(secret)
  expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  expect(lines.join('')).toContain(answer.headers['x-request-id'])
})

test('nor does a span hold one, whatever came of the request', async () => {
  const receiver = await openOtlpReceiver()
  onTestFinished(() => receiver.close())
  const tracing = await receiver.openTracing()
  const { app, lines } = openApp(tracing)
  const evil = { ...headers, host: 'evil.example' }
  for (const sent of [headers, evil]) await app.inject({ url: '/fire', headers: sent })
  const { 'x-request-id': id, host } = headers
  for (const url of ['/fire', `/fire/${secret}`]) {
    await app.inject({ url, headers: { host, 'x-request-id': id } })
  }
  await app.inject({ url: '/fire', headers: { host: 'evil.example', 'x-request-id': id } })
  await tracing.close()
  expect(receiver.spans.map(({ name }) => name)).toEqual(['GET /fire', 'GET', 'GET /fire'])
  expect(JSON.stringify([receiver.spans, lines])).not.toContain(secret)
})

test('other ids are kept, and a refusal still names the unknown one', async () => {
  const { app } = openApp()
  const answer = await app.inject({
    url: '/fire?targets=audit',
    headers: { host: 'localhost', 'x-request-id': 'job-7' },
  })
  expect(answer.headers['x-request-id']).toBe('job-7')
  expect(answer.json()).toMatchObject({ code: 'unknown_target', request_id: 'job-7' })
  expect(answer.body).toContain('audit')
})
