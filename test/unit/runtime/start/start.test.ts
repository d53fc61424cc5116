/** Variables that are nearly ours are noticed, and those of others are left alone. */

import { expect, test } from 'vitest'
import { nearlyOurs, settingsOf } from '#runtime/start/start.ts'
import { services } from '#services/index.ts'

const found = (env: Record<string, string>) =>
  nearlyOurs(settingsOf(services), env).map(({ variable, meant }) => `${variable} ${meant}`)

test.each([
  ['KAFKA_BROKER', 'KAFKA_BROKERS'],
  ['LOG_LEVL', 'LOG_LEVEL'],
  ['log_level', 'LOG_LEVEL'],
  ['QDRANT_URI', 'QDRANT_URL'],
  ['WEBHOOKS_TARGETS_FILE', 'WEBHOOK_TARGETS_FILE'],
  ['FLOTILA_HOME', 'FLOTILLA_HOME'],
])('%s is probably %s', (variable, meant) => {
  expect(found({ [variable]: 'x' })).toEqual([`${variable} ${meant}`])
})

test('known, unset and foreign variables are accepted', () => {
  const names = [
    'KAFKA_BROKERS',
    'HOME',
    'HOSTNAME',
    'APP_PORT',
    'API_PORT',
    'PATH',
    'LOGNAME',
    'npm_lifecycle_event',
  ]
  expect(found(Object.fromEntries(names.map((name) => [name, 'x'])))).toEqual([])
  expect(found({ KAFKA_BROKER: '' })).toEqual([])
})
