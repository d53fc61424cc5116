/** The environment variable that chooses and reaches the relational engine and its mirror. */

import { type Static, Type } from 'typebox'
import { optionalUrl } from '#lib/config.ts'
import { readClientCertificate, readPem, type TlsEngine } from '#lib/tls.ts'

export const relationalSettings = Type.Object({
  DATABASE_URL: optionalUrl('postgres://…; without it Postgres is embedded'),
})

/** Null without TLS. Throws AppError `invalid_configuration` for files that are no use. */
export function postgresTls({ DATABASE_URL: url }: Static<typeof relationalSettings>): TlsEngine | null {
  if (!url) return null
  const { searchParams } = new URL(url)
  const mode = searchParams.get('sslmode')
  const named = ['ssl', 'sslcert', 'sslrootcert'].some((name) => searchParams.has(name))
  if (mode === 'disable' || (mode === null && !named)) return null
  const [certificate, key, authority] = ['sslcert', 'sslkey', 'sslrootcert'].map(
    (name) => searchParams.get(name) ?? undefined,
  )
  readClientCertificate({ certificate, key, names: ['sslcert', 'sslkey of DATABASE_URL'] })
  if (authority) readPem(authority, 'sslrootcert of DATABASE_URL')
  const certificateSettings = 'sslcert and sslkey of DATABASE_URL'
  return { engine: 'relational', variable: 'DATABASE_URL', certificateSettings, address: null }
}
