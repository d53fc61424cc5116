/** Log lines of answers from 500 on are named by what happened. */

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { AppError, type ErrorCode, errorCodes } from '#lib/errors.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { faultLineOf } from '#runtime/http/errors.ts'

test.each([
  ['log_unavailable', undefined, 'http.engine-away'],
  ['identity_unavailable', undefined, 'http.engine-away'],
  ['operation_failed', 502, 'http.operation-failed'],
  ['agent_error', undefined, 'http.agent-error'],
  ['node_unavailable', undefined, 'http.node-away'],
  ['run_timeout', undefined, 'http.timeout'],
  ['shutting_down', undefined, 'http.shutting-down'],
  ['internal_error', undefined, 'http.fault'],
] as const)('%s is logged as %s %s', async (code, statusCode, name) => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const app = createHttpApp({ name: 'test', log, metrics: new Registry() })
  onTestFinished(() => app.close())
  app.get('/', () => {
    throw new AppError(code, 'D', statusCode === undefined ? {} : { statusCode })
  })
  await app.inject('/')
  expect(lines.map((line) => JSON.parse(line)).map(({ msg, code: logged }) => [msg, logged])).toEqual([
    [name, code],
  ])
})

test('every code that may be answered from 501 on has a name', () => {
  const later = Object.entries(errorCodes).filter(([, { status, alsoStatus }]) =>
    [status, ...Object.keys(alsoStatus ?? {}).map(Number)].some((one) => one > 500),
  )
  expect(later.length).toBeGreaterThan(10)
  const named = later.map(([code]) => faultLineOf({ code: code as ErrorCode, statusCode: 503 }))
  expect(named).not.toContain('http.refused')
})
