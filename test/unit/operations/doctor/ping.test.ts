/** What the doctor says of an event log that could be reached and not used: its client wraps the reason deeply. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { engineAway } from '#operations/doctor/ping.ts'

const eventLog = { engine: 'eventLog', variable: 'KAFKA_BROKERS' } as const

/** As the client of Kafka throws it: the outermost code first. */
function fault(...codes: string[]): Error | undefined {
  const [code, ...inner] = codes
  return code === undefined
    ? undefined
    : Object.assign(new Error('failed', { cause: fault(...inner) }), { code })
}

test.each([
  [['PLT_KFK_NETWORK', 'PLT_KFK_AUTHENTICATION', 'PLT_KFK_RESPONSE'], /refuses the user.*KAFKA_PASSWORD/],
  [['PLT_KFK_NETWORK'], /closes the connection.*KAFKA_SSL and KAFKA_SASL_MECHANISM/],
  [['PLT_KFK_NETWORK', 'ECONNREFUSED'], /Nobody listens there/],
])('%j', (codes, said) => {
  const away = new AppError('log_unavailable', 'The event log does not answer.', { cause: fault(...codes) })
  const { status, found, advice } = engineAway('event log', eventLog, away)
  expect(status).toBe('fail')
  expect(`${found} ${advice}`).toMatch(said)
})
