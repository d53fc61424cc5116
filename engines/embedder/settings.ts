/** The environment variables that choose and reach the embedder. */

import { type Static, Type } from 'typebox'
import { optionalText, optionalUrl } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'

export const embedderSettings = Type.Object({
  EMBEDDINGS_URL: optionalUrl(
    'OpenAI-compatible endpoint; without it the built-in embedder is used ([embeddings.md](embeddings.md))',
  ),
  EMBEDDER: Type.Optional(
    Type.Enum(['meaning', 'lexical'], {
      type: 'string',
      default: 'meaning',
      description:
        'the built-in embedder: `meaning` knows English words and what they mean, `lexical` words alone; audit notes are made by it whatever EMBEDDINGS_URL says',
    }),
  ),
  EMBEDDINGS_API_KEY: optionalText('of that endpoint'),
  EMBEDDINGS_MODEL: optionalText('of that endpoint; without it `text-embedding-3-small`'),
  EMBEDDINGS_DIMENSIONS: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1536,
      description:
        'asks that endpoint for vectors of so many dimensions; needed for models with more than 1536, which must be able to shorten theirs',
    }),
  ),
})

/** Throws AppError `invalid_configuration` for settings of an endpoint that is not named: they would do nothing. */
export function checkEmbedderSettings(settings: Static<typeof embedderSettings>): void {
  if (settings.EMBEDDINGS_URL) return
  const idle = Object.keys(embedderSettings.properties).filter(
    (name) => name !== 'EMBEDDER' && settings[name as keyof typeof settings],
  )
  if (idle.length === 0) return
  throw new AppError(
    'invalid_configuration',
    `${idle.join(', ')} ${idle.length === 1 ? 'belongs' : 'belong'} to EMBEDDINGS_URL, which is not set: name the endpoint there, or take ${idle.length === 1 ? 'it' : 'them'} away to use the built-in embedder.`,
  )
}

/** How to reach the endpoint; null when texts are embedded locally. */
export function embeddingsEndpoint(settings: Static<typeof embedderSettings>) {
  const { EMBEDDINGS_URL: url, EMBEDDINGS_API_KEY: apiKey, EMBEDDINGS_MODEL: model } = settings
  const { EMBEDDINGS_DIMENSIONS: dimensions } = settings
  if (!url) return null
  return { url, apiKey: apiKey || undefined, model: model || undefined, dimensions }
}
