/** The environment variables that choose and reach the vector engine. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'

export const vectorSettings = Type.Object({
  QDRANT_URL: optionalUrl('without it the vector engine is embedded'),
  QDRANT_API_KEY: optionalText('of Qdrant'),
})

/** How to reach Qdrant; null when the vector engine is embedded. */
export function qdrantConnection(settings: Static<typeof vectorSettings>) {
  const { QDRANT_URL: url, QDRANT_API_KEY: apiKey } = settings
  return url ? { url, ...(apiKey ? { apiKey } : {}) } : null
}
