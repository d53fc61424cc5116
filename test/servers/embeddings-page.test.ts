/** The recipes of docs/embeddings.md, line by line, on an endpoint that answers as Ollama and OpenAI do. */

import { expect, onTestFinished, test } from 'vitest'
import { type EmbeddingsServer, openEmbeddingsServer } from '../support/embeddings-server.ts'
import { openGatewayPlatform } from '../support/gateway-platform.ts'
import { codeBlocks } from '../support/pages.ts'

const patient = { timeout: 120_000 }

/** What each recipe exports. */
const recipes = codeBlocks('docs/embeddings.md')
  .map(({ heading, code }) => ({
    heading,
    env: Object.fromEntries(
      [...code.matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name!, value!]),
    ),
  }))
  .filter(({ env }) => env.EMBEDDINGS_URL !== undefined)

async function openEndpoint(heading: string): Promise<EmbeddingsServer> {
  const server = await openEmbeddingsServer()
  onTestFinished(() => server.close())
  const isOllama = /Ollama/.test(heading)
  // Dimensions as the models' own pages give them.
  server.models = isOllama
    ? { 'nomic-embed-text': { dimensions: 768, canShorten: true } }
    : {
        'text-embedding-3-small': { dimensions: 1536, canShorten: true },
        'text-embedding-3-large': { dimensions: 3072, canShorten: true },
      }
  server.apiKey = isOllama ? null : 'sk-test'
  return server
}

/** The recipe's variables; only host and key are those of the stand-in. */
function environment(env: Record<string, string>, server: EmbeddingsServer): Record<string, string> {
  const url = new URL(env.EMBEDDINGS_URL!)
  return {
    ...env,
    EMBEDDINGS_URL: `${server.url}${url.pathname}`,
    ...(env.EMBEDDINGS_API_KEY === undefined ? {} : { EMBEDDINGS_API_KEY: 'sk-test' }),
  }
}

test('there is a recipe for Ollama, and one for each model of OpenAI', () => {
  expect(recipes.map(({ env }) => [new URL(env.EMBEDDINGS_URL!).host, env.EMBEDDINGS_MODEL])).toEqual([
    ['127.0.0.1:11434', 'nomic-embed-text'],
    ['api.openai.com', 'text-embedding-3-small'],
    ['api.openai.com', 'text-embedding-3-large'],
  ])
})

test.each(recipes)('$heading: $env.EMBEDDINGS_MODEL stores and finds', patient, async ({ heading, env }) => {
  const server = await openEndpoint(heading)
  const gateway = await openGatewayPlatform(environment(env, server))
  onTestFinished(() => gateway.close())
  const client = await gateway.clientOf('scout')
  const { data, model } = await client.embeddings([
    'The lighthouse is repaired',
    'The harbour master is away',
  ])
  expect(model).toBe(env.EMBEDDINGS_MODEL)
  const points = data.map(({ embedding }, n) => ({ id: `log-${n}`, vector: embedding as number[] }))
  for (const { vector } of points) expect(vector).toHaveLength(1536)
  await client.upsert('knowledgebase', points, { wait: true })
  const { results } = await client.search({
    collection: 'knowledgebase',
    vector: points[1]!.vector,
    limit: 1,
  })
  expect(results[0]).toMatchObject({ id: 'log-1', score: expect.closeTo(1, 5) })
  expect(server.requests.at(-1)).toMatchObject({ path: '/v1/embeddings', model: env.EMBEDDINGS_MODEL })
})

test('settings that can never fit stop the start and say why', patient, async () => {
  const { heading, env } = recipes[2]!
  const server = await openEndpoint(heading)
  const sound = environment(env, server)
  const refusal = async (changed: Record<string, string>) => {
    const started = openGatewayPlatform({ ...sound, ...changed }).then((gateway) => gateway.close())
    return started.then(
      () => 'it started',
      (error: Error) => error.message,
    )
  }
  expect(await refusal({ EMBEDDINGS_DIMENSIONS: '' })).toMatch(/3072 dimensions.*EMBEDDINGS_DIMENSIONS=1536/)
  expect(await refusal({ EMBEDDINGS_API_KEY: 'sk-other' })).toMatch(/answers 401/)
  expect(await refusal({ EMBEDDINGS_MODEL: 'text-embedding-4' })).toMatch(/answers 404.*model/)
  expect(await refusal({ EMBEDDINGS_DIMENSIONS: '3072' })).toMatch(
    /EMBEDDINGS_DIMENSIONS is "3072": a whole number from 1 to 1,536/,
  )
})

test(
  'an endpoint that is away does not stop the start; embeddings are 503 until it is back',
  patient,
  async () => {
    const { heading, env } = recipes[0]!
    const server = await openEndpoint(heading)
    server.faults = [{ status: 503 }]
    const gateway = await openGatewayPlatform(environment(env, server))
    onTestFinished(() => gateway.close())
    expect(gateway.lines.filter((line) => line.includes('start.embedder-away'))).toHaveLength(1)
    const client = await gateway.clientOf('scout', { attemptsMax: 1 })
    server.faults = [{ status: 429, retryAfter: '30' }]
    await expect(client.embeddings('x')).rejects.toMatchObject({ status: 503, code: 'embedder_unavailable' })
    expect((await client.embeddings('x')).data).toHaveLength(1)
  },
)
