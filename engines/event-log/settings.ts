/** The environment variables that choose and reach the event log. */

import { type Static, Type } from 'typebox'
import { optionalText } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'

const hostAndPort = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/@]+):\d{1,5}$/

export const eventLogSettings = Type.Object({
  KAFKA_BROKERS: Type.Optional(
    Type.Refine(
      Type.String({ description: 'host:port, comma-separated; without it the log is embedded' }),
      (brokers) => brokers.split(',').every((broker) => hostAndPort.test(broker.trim())),
      () => 'must be host:port, comma-separated',
    ),
  ),
  KAFKA_SSL: Type.Optional(Type.Boolean({ description: 'true for TLS' })),
  KAFKA_SASL_MECHANISM: Type.Optional(
    Type.Enum(['plain', 'scram-sha-256', 'scram-sha-512'], {
      description: '`plain`, `scram-sha-256` or `scram-sha-512`; with user and password',
    }),
  ),
  KAFKA_USERNAME: optionalText('SASL user'),
  KAFKA_PASSWORD: optionalText('SASL password'),
})

type EventLogSettings = Static<typeof eventLogSettings>

/** Throws AppError `invalid_configuration` when only a part of the SASL settings is there. */
export function checkEventLogSettings(settings: EventLogSettings): void {
  const sasl = [settings.KAFKA_SASL_MECHANISM, settings.KAFKA_USERNAME, settings.KAFKA_PASSWORD]
  if (!sasl.some(Boolean) || sasl.every(Boolean)) return
  throw new AppError(
    'invalid_configuration',
    'KAFKA_SASL_MECHANISM, KAFKA_USERNAME and KAFKA_PASSWORD belong together: set all or none.',
  )
}

/** How to reach the cluster; null when the log is embedded. */
export function kafkaConnection(settings: EventLogSettings) {
  if (!settings.KAFKA_BROKERS) return null
  const { KAFKA_SASL_MECHANISM: mechanism, KAFKA_USERNAME: username, KAFKA_PASSWORD: password } = settings
  return {
    brokers: settings.KAFKA_BROKERS.split(',').map((broker) => broker.trim()),
    ssl: settings.KAFKA_SSL ?? false,
    ...(mechanism ? { sasl: { mechanism, username: username ?? '', password: password ?? '' } } : {}),
  }
}
