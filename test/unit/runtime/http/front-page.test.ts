/** `/` of an interface: a page for people, the same as JSON for programs. */

import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp, registerApiDescription } from '#runtime/http/app.ts'

async function open(more: { front?: string } = {}) {
  const app = createHttpApp({ name: 'hub', log: pino({ level: 'silent' }), metrics: new Registry() })
  onTestFinished(() => app.close())
  const api = {
    prefix: '/v1' as const,
    title: 'A <hub>',
    description: 'Notes & goals.',
    version: '1',
    tags: [],
  }
  await registerApiDescription(app, { ...api, ...more })
  return app
}

test('a browser gets a page with the ways on', async () => {
  const app = await open()
  app.process.consoleUrl = 'http://127.0.0.1:8081/console/'
  const { headers, body } = await app.inject({ url: '/', headers: { accept: 'text/html,*/*' } })
  expect(headers['content-type']).toContain('text/html')
  expect(headers['content-security-policy']).toContain("default-src 'none'")
  for (const part of [
    'A &#60;hub&#62;',
    'Notes &#38; goals.',
    '/v1/reference',
    '/v1/openapi.json',
    '8081/console/',
  ])
    expect(body).toContain(part)
})

test('a program gets JSON, without a console where none is known', async () => {
  const app = await open()
  const answer = await app.inject({ url: '/', headers: { accept: '*/*' } })
  expect(answer.json()).toEqual({
    name: 'A <hub>',
    reference: '/v1/reference',
    description: '/v1/openapi.json',
  })
})

test('an interface with a front leads there', async () => {
  const app = await open({ front: '/console/' })
  expect(await app.inject('/')).toMatchObject({ statusCode: 302, headers: { location: '/console/' } })
})
