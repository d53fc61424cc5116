/** The environment variables that choose and reach the embedder. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'

export const embedderSettings = Type.Object({
  EMBEDDINGS_URL: optionalUrl('OpenAI-compatible endpoint; without it texts are embedded locally'),
  EMBEDDINGS_API_KEY: optionalText('of that endpoint'),
  EMBEDDINGS_MODEL: optionalText('of that endpoint'),
})

/** How to reach the endpoint; null when texts are embedded locally. */
export function embeddingsEndpoint(settings: Static<typeof embedderSettings>) {
  const { EMBEDDINGS_URL: url, EMBEDDINGS_API_KEY: apiKey, EMBEDDINGS_MODEL: model } = settings
  return url ? { url, ...(apiKey ? { apiKey } : {}), ...(model ? { model } : {}) } : null
}
