/** The environment variables that choose and reach the vector engine. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import type { TlsEngine } from '#lib/tls.ts'

export const vectorSettings = Type.Object({
  QDRANT_URL: optionalUrl('without it the vector engine is embedded'),
  QDRANT_GRPC_URL: optionalUrl(
    "Qdrant's gRPC address, http(s)://host:6334: writes of many points go there and take less processor time; without it everything goes over REST",
  ),
  QDRANT_API_KEY: optionalText('of Qdrant'),
})

type VectorSettings = Static<typeof vectorSettings>

/** Throws AppError `invalid_configuration`. */
export function checkVectorSettings({ QDRANT_URL: url, QDRANT_GRPC_URL: grpcUrl }: VectorSettings): void {
  if (!grpcUrl) return
  const refuse = (message: string) => new AppError('invalid_configuration', message)
  if (!url) throw refuse('QDRANT_GRPC_URL belongs to QDRANT_URL, which is not set: reads go over REST.')
  if (!/^https?:/.test(grpcUrl)) throw refuse('QDRANT_GRPC_URL must begin with http:// or https://.')
}

/** How to reach Qdrant; null when the vector engine is embedded. */
export function qdrantConnection(settings: VectorSettings) {
  const { QDRANT_URL: url, QDRANT_GRPC_URL: grpcUrl, QDRANT_API_KEY: apiKey } = settings
  return url ? { url, ...(grpcUrl ? { grpcUrl } : {}), ...(apiKey ? { apiKey } : {}) } : null
}

/** Addresses with TLS. */
export function qdrantTls(settings: VectorSettings): TlsEngine[] {
  return (['QDRANT_URL', 'QDRANT_GRPC_URL'] as const)
    .filter((variable) => settings[variable]?.startsWith('https:'))
    .map((variable) => ({ engine: 'vectors', variable, certificateSettings: null, address: null }))
}
