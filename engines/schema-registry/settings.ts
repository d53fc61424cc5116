/** The environment variables that choose and reach the schema registry. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'
import { type ClientCertificate, readClientCertificate, type TlsEngine } from '#lib/tls.ts'

export const schemaRegistrySettings = Type.Object({
  SCHEMA_REGISTRY_URL: optionalUrl('Confluent-compatible API; without it the schemas folder'),
  SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION: optionalText(
    'PEM file of the client certificate, for a registry that asks for one; with its key',
  ),
  SCHEMA_REGISTRY_SSL_KEY_LOCATION: optionalText('PEM file of its private key, without a password'),
})

/** How to reach the registry; null where the schemas folder is it. Throws AppError `invalid_configuration`. */
export function registryConnection(
  settings: Static<typeof schemaRegistrySettings>,
): { url: string; certificate: ClientCertificate | null } | null {
  const certificate = readClientCertificate({
    certificate: settings.SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION,
    key: settings.SCHEMA_REGISTRY_SSL_KEY_LOCATION,
    names: ['SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION', 'SCHEMA_REGISTRY_SSL_KEY_LOCATION'],
  })
  const { SCHEMA_REGISTRY_URL: url } = settings
  return url ? { url, certificate } : null
}

/** Null without TLS. */
export function registryTls(settings: Static<typeof schemaRegistrySettings>): TlsEngine | null {
  const connection = registryConnection(settings)
  if (!connection?.url.startsWith('https:')) return null
  const { hostname: host, port } = new URL(connection.url)
  return {
    engine: 'schemaRegistry',
    variable: 'SCHEMA_REGISTRY_URL',
    certificateSettings: 'SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION and SCHEMA_REGISTRY_SSL_KEY_LOCATION',
    address: { host, port: Number(port || 443), certificate: connection.certificate },
  }
}
