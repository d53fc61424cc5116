/** The environment variables that choose and reach the vector engine. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'
import type { TlsEngine } from '#lib/tls.ts'

export const vectorSettings = Type.Object({
  QDRANT_URL: optionalUrl('without it the vector engine is embedded'),
  QDRANT_API_KEY: optionalText('of Qdrant'),
})

/** How to reach Qdrant; null when the vector engine is embedded. */
export function qdrantConnection(settings: Static<typeof vectorSettings>) {
  const { QDRANT_URL: url, QDRANT_API_KEY: apiKey } = settings
  return url ? { url, ...(apiKey ? { apiKey } : {}) } : null
}

/** Null without TLS. */
export function qdrantTls({ QDRANT_URL: url }: Static<typeof vectorSettings>): TlsEngine | null {
  if (!url?.startsWith('https:')) return null
  return { engine: 'vectors', variable: 'QDRANT_URL', certificateSettings: null, address: null }
}
