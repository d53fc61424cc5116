/** The environment variables that choose and reach the event log. */

import { type Static, Type } from 'typebox'
import { optionalText } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { readClientCertificate, type TlsEngine } from '#lib/tls.ts'

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
  KAFKA_SSL_CERTIFICATE_LOCATION: optionalText(
    'PEM file of the client certificate, for brokers that ask for one; with KAFKA_SSL and its key',
  ),
  KAFKA_SSL_KEY_LOCATION: optionalText('PEM file of its private key, without a password'),
  KAFKA_SASL_MECHANISM: Type.Optional(
    Type.Enum(['plain', 'scram-sha-256', 'scram-sha-512'], {
      description: '`plain`, `scram-sha-256` or `scram-sha-512`; with user and password',
    }),
  ),
  KAFKA_USERNAME: optionalText('SASL user'),
  KAFKA_PASSWORD: optionalText('SASL password'),
})

type EventLogSettings = Static<typeof eventLogSettings>

/**
 * Throws AppError `invalid_configuration` when only a part of the SASL settings is there, or a client certificate that cannot
 * be used.
 */
export function checkEventLogSettings(settings: EventLogSettings): void {
  if (certificateOf(settings) && !settings.KAFKA_SSL) {
    throw new AppError('invalid_configuration', 'A client certificate for brokers needs KAFKA_SSL=true.')
  }
  const sasl = [settings.KAFKA_SASL_MECHANISM, settings.KAFKA_USERNAME, settings.KAFKA_PASSWORD]
  if (!sasl.some(Boolean) || sasl.every(Boolean)) return
  throw new AppError(
    'invalid_configuration',
    'KAFKA_SASL_MECHANISM, KAFKA_USERNAME and KAFKA_PASSWORD belong together: set all or none.',
  )
}

function certificateOf(settings: EventLogSettings) {
  return readClientCertificate({
    certificate: settings.KAFKA_SSL_CERTIFICATE_LOCATION,
    key: settings.KAFKA_SSL_KEY_LOCATION,
    names: ['KAFKA_SSL_CERTIFICATE_LOCATION', 'KAFKA_SSL_KEY_LOCATION'],
  })
}

/** How to reach the cluster; null when the log is embedded. */
export function kafkaConnection(settings: EventLogSettings) {
  if (!settings.KAFKA_BROKERS) return null
  const { KAFKA_SASL_MECHANISM: mechanism, KAFKA_USERNAME: username, KAFKA_PASSWORD: password } = settings
  return {
    brokers: settings.KAFKA_BROKERS.split(',').map((broker) => broker.trim()),
    ...(settings.KAFKA_SSL ? { ssl: certificateOf(settings) ?? {} } : {}),
    ...(mechanism ? { sasl: { mechanism, username: username ?? '', password: password ?? '' } } : {}),
  }
}

/** Null without TLS. */
export function kafkaTls(settings: EventLogSettings): TlsEngine | null {
  const [broker] = kafkaConnection(settings)?.brokers ?? []
  if (!settings.KAFKA_SSL || broker === undefined) return null
  const { hostname: host, port } = new URL(`kafka://${broker}`)
  return {
    engine: 'eventLog',
    variable: 'KAFKA_BROKERS',
    certificateSettings: 'KAFKA_SSL_CERTIFICATE_LOCATION and KAFKA_SSL_KEY_LOCATION',
    address: { host, port: Number(port), certificate: certificateOf(settings) },
  }
}
