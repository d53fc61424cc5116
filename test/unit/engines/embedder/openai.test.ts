/** The embedder for OpenAI's API beyond the contract: requests, retries and faults. */

import { expect, onTestFinished, test } from 'vitest'
import { openOpenAiEmbedder } from '#engines/embedder/openai.ts'
import { sleep } from '#lib/backoff.ts'
import { cosine, lengthOf } from '../../../contract/embedder.contract.ts'
import { openEmbeddingsServer } from '../../../support/embeddings-server.ts'

async function openServer() {
  const server = await openEmbeddingsServer()
  onTestFinished(() => server.close())
  return server
}

test('the key and the model go with every request, in batches', async () => {
  const server = await openServer()
  const embedder = openOpenAiEmbedder({ url: `${server.url}/v1/`, apiKey: 'k', model: 'm' })
  await embedder.embed(Array.from({ length: 130 }, (_, n) => `t${n}`))
  expect(server.requests.map(({ input }) => input.length).sort((a, b) => b - a)).toEqual([64, 64, 2])
  for (const request of server.requests) {
    expect(request).toMatchObject({ path: '/v1/embeddings', authorization: 'Bearer k', model: 'm' })
  }
})

test('long texts go in batches of bytes, four at a time, and come back in their order', async () => {
  const server = await openServer()
  const texts = Array.from({ length: 40 }, (_, n) => `${n} ${'水'.repeat(16_000)}`)
  const embedder = openOpenAiEmbedder({ url: server.url })
  const vectors = await embedder.embed(texts)
  // 48,004 bytes each: five in 256 KiB.
  expect(server.requests.map(({ input }) => input.length)).toEqual(new Array(8).fill(5))
  expect(vectors).toHaveLength(40)
  for (const n of [0, 7, 39]) expect([vectors[n]]).toEqual(await embedder.embed([texts[n]!]))
})

test('a batch that finds the endpoint away ends the others', async () => {
  const server = await openServer()
  server.faults = [{ status: 429, retryAfter: '60' }]
  const texts = Array.from({ length: 64 * 20 }, (_, n) => `t${n}`)
  await expect(openOpenAiEmbedder({ url: server.url }).embed(texts)).rejects.toMatchObject({
    code: 'embedder_unavailable',
    retryAfter: 60,
  })
  expect(server.requests.length).toBeLessThan(20)
})

test.each([
  ['', '/v1/embeddings'],
  ['/v1', '/v1/embeddings'],
  ['/openai/v1/embeddings', '/openai/v1/embeddings'],
  ['/v1/embeddings?api-version=1', '/v1/embeddings?api-version=1'],
])('an address that ends with "%s" asks %s', async (suffix, path) => {
  const server = await openServer()
  await openOpenAiEmbedder({ url: `${server.url}${suffix}` }).embed(['x'])
  expect(server.requests[0]!.path).toBe(path)
  expect(server.requests[0]!.authorization).toBeUndefined()
})

test('vectors are put into the order of the texts by their index', async () => {
  const server = await openServer()
  const embedder = openOpenAiEmbedder({ url: server.url })
  const straight = await embedder.embed(['a', 'b', 'c'])
  server.reversed = true
  expect(await embedder.embed(['a', 'b', 'c'])).toEqual(straight)
})

test('429 and 5xx are tried again', async () => {
  const server = await openServer()
  server.faults = [{ status: 429, retryAfter: '0' }, { status: 503 }, { status: 500 }]
  expect(await openOpenAiEmbedder({ url: server.url }).embed(['x'])).toHaveLength(1)
  expect(server.requests).toHaveLength(4)
})

test('what stays busy is unavailable, with the wait that was asked for', async () => {
  const server = await openServer()
  server.faults = [{ status: 429, retryAfter: '37' }]
  await expect(openOpenAiEmbedder({ url: server.url }).embed(['x'])).rejects.toMatchObject({
    code: 'embedder_unavailable',
    retryAfter: 37,
  })
  expect(server.requests).toHaveLength(1)
})

test('an endpoint that is away is unavailable', async () => {
  const server = await openEmbeddingsServer()
  await server.close()
  await expect(openOpenAiEmbedder({ url: server.url }).embed(['x'])).rejects.toMatchObject({
    code: 'embedder_unavailable',
  })
})

test('an endpoint that hangs is given up in time', async () => {
  const server = await openServer()
  server.faults = [{ hang: true }, { hang: true }, { hang: true }, { hang: true }]
  await expect(openOpenAiEmbedder({ url: server.url, timeoutMs: 100 }).embed(['x'])).rejects.toMatchObject({
    code: 'embedder_unavailable',
  })
})

test('an endpoint is asked no more once the caller has given up', async () => {
  const server = await openServer()
  server.faults = Array.from({ length: 8 }, () => ({ hang: true as const }))
  const given = AbortSignal.timeout(100)
  await expect(openOpenAiEmbedder({ url: server.url }).embed(['x'], given)).rejects.toMatchObject({
    code: 'embedder_unavailable',
  })
  expect(server.requests.length).toBe(1)
  await sleep(1_000)
  expect(server.requests.length).toBe(1)
})

test('shorter vectors are filled up with zeros: their cosine stays as it is', async () => {
  const server = await openServer()
  server.dimensions = 768
  const [a, b] = await openOpenAiEmbedder({ url: server.url }).embed(['a', 'b'])
  expect([...a!.subarray(768), ...b!.subarray(768)].every((component) => component === 0)).toBe(true)
  expect(lengthOf(a!)).toBeCloseTo(1, 5)
  expect(cosine(a!, b!)).toBeCloseTo(cosine(a!.subarray(0, 768), b!.subarray(0, 768)), 6)
  expect(server.requests[0]!.dimensions).toBeUndefined()
})

test('longer vectors are a clear fault, not a try again; with dimensions the model shortens them', async () => {
  const server = await openServer()
  server.dimensions = 3072
  await expect(openOpenAiEmbedder({ url: server.url }).embed(['x'])).rejects.toMatchObject({
    code: 'invalid_configuration',
    message: expect.stringMatching(/3072 dimensions, more than 1536.*EMBEDDINGS_DIMENSIONS=1536/),
  })
  expect(server.requests).toHaveLength(1)
  const [vector] = await openOpenAiEmbedder({ url: server.url, dimensions: 1536 }).embed(['x'])
  expect(vector).toHaveLength(1536)
  expect(server.requests[1]!.dimensions).toBe(1536)
})

test('a ping asks once: no answer is unavailable, vectors of the wrong length are a fault', async () => {
  const server = await openServer()
  server.faults = [{ status: 503 }, { hang: true }]
  const embedder = openOpenAiEmbedder({ url: server.url })
  await expect(embedder.ping(5_000)).rejects.toMatchObject({ code: 'embedder_unavailable' })
  await expect(embedder.ping(100)).rejects.toMatchObject({ code: 'embedder_unavailable' })
  server.dimensions = 4096
  await expect(embedder.ping(5_000)).rejects.toMatchObject({ code: 'invalid_configuration' })
  expect(server.requests).toHaveLength(3)
})

test('a refused key is a clear fault; neither it nor the endpoint’s text shows', async () => {
  const server = await openServer()
  server.faults = [{ status: 401 }]
  const embedder = openOpenAiEmbedder({ url: server.url, apiKey: 'sk-secret' })
  const fault = (await embedder.embed(['x']).catch((error: unknown) => error)) as Error
  expect(fault).toMatchObject({ code: 'invalid_configuration', message: expect.stringContaining('401') })
  expect(`${fault.message}${String(fault.cause)}`).not.toMatch(/sk-secret|must not leave/)
})
