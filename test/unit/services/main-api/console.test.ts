/** Answers where the console was not built. */

import fastify from 'fastify'
import { expect, test } from 'vitest'
import { registerConsole } from '#services/main-api/console.ts'

test('where nothing was built, the page says how to build it, and the interface works', async () => {
  const app = fastify()
  await registerConsole(app, '/nowhere/console/dist')
  app.get('/other', () => 'works')
  const page = await app.inject('/console/')
  expect([page.statusCode, page.body]).toEqual([503, expect.stringContaining('npm run build')])
  expect((await app.inject('/console/assets/index.js')).statusCode).toBe(404)
  expect((await app.inject('/other')).body).toBe('works')
  await app.close()
})
