/** The contract of the embedder, run on the driver for OpenAI's API. */

import { afterAll, beforeAll } from 'vitest'
import { openOpenAiEmbedder } from '#engines/embedder/openai.ts'
import { type EmbeddingsServer, openEmbeddingsServer } from '../support/embeddings-server.ts'
import { describeEmbedder } from './embedder.contract.ts'

let server: EmbeddingsServer
beforeAll(async () => {
  server = await openEmbeddingsServer()
  server.models = {
    'text-embedding-3-small': { dimensions: 1536, canShorten: true },
    small: { dimensions: 768, canShorten: false },
  }
})
afterAll(() => server.close())
describeEmbedder('openai', { open: async () => openOpenAiEmbedder({ url: server.url }) })
describeEmbedder('openai, a model of 768 dimensions', {
  open: async () => openOpenAiEmbedder({ url: server.url, model: 'small' }),
})
