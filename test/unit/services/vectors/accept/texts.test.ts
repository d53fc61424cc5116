/** Points with a text instead of a vector, and the vectors that the gateway makes of them. */

import { expect, onTestFinished, test, vi } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { createBodyThread } from '#runtime/http/json-parser.ts'
import { createByteBudget } from '#services/vectors/accept/byte-budget.ts'
import { readQuestion } from '#services/vectors/accept/points.ts'
import { embedQuestion, embedQuestions, embedTexts } from '#services/vectors/accept/texts.ts'
import { type ParsedUpsert, parseUpsert } from '#services/vectors/accept/upsert.ts'
import { axisVector } from '../../../../support/points.ts'

const bodyOf = (...points: object[]) => Buffer.from(JSON.stringify({ collection: 'posts', points }))
const vector = axisVector(1)

function refusal(work: () => unknown): AppError {
  try {
    work()
  } catch (error) {
    return error as AppError
  }
  throw new Error('it was accepted')
}

const everyLetter = [
  'plain words',
  '👩‍👩‍👧 🇯🇵 👍🏽',
  'مرحبا بالعالم، שלום',
  'e\u0301 and a\u0308\u0323, Ṩ',
  '日本語と中文',
  'a\u0000b',
  '\ufeff\u200b\u202e',
  '  \n\t ',
  'x'.repeat(16_384),
  '👍'.repeat(8_000),
]

test('a text of any letters is kept as payload.text, exactly, and waits for its vector', () => {
  const points = everyLetter.map((text, n) => ({ id: `p${n}`, text, payload: { n } }))
  const parsed = parseUpsert(bodyOf(...points))
  expect([...parsed.texts]).toEqual(everyLetter.map((text, n) => [n, text]))
  expect(parsed.payloads.map((one) => JSON.parse(one))).toEqual(everyLetter.map((text, n) => ({ n, text })))
})

test('points with vectors and with texts may be mixed; of an id that comes twice the last counts', () => {
  const parsed = parseUpsert(
    bodyOf(
      { id: 'a', text: 'first' },
      { id: 'b', vector },
      { id: 'a', vector, payload: { n: 2 } },
      { id: 'c', text: 'third', payload: { text: 'third', __proto__: 1 } },
      { id: 'b', text: 'second' },
    ),
  )
  expect(parsed.ids).toEqual(['a', 'b', 'c'])
  expect(parsed.payloads).toEqual(['{"n":2}', '{"text":"second"}', '{"text":"third"}'])
  expect(parsed.texts).toEqual(
    new Map([
      [2, 'third'],
      [1, 'second'],
    ]),
  )
  expect(new Float32Array(parsed.vectors, 0, 1536)[1]).toBe(1)
})

test.each([
  ['both', { id: 'a', vector, text: 'x' }, '/points/0'],
  ['none', { id: 'a', payload: { text: 'x' } }, '/points/0'],
  ['an empty text', { id: 'a', text: '' }, '/points/0/text'],
  ['no text but a number', { id: 'a', text: 7 }, '/points/0/text'],
  ['null', { id: 'a', text: null }, '/points/0/text'],
  ['16,385 characters', { id: 'a', text: 'x'.repeat(16_385) }, '/points/0/text'],
  ['16,385 characters outside the BMP', { id: 'a', text: '👍'.repeat(16_385) }, '/points/0/text'],
  ['more than 64 KiB as JSON', { id: 'a', text: '👍'.repeat(16_384) }, '/points/0/text'],
  ['half of a surrogate pair', { id: 'a', text: 'a\ud800' }, '/points/0/text'],
  ['another payload.text', { id: 'a', text: 'x', payload: { text: 'y' } }, '/points/0/payload'],
  ['a payload.text that is null', { id: 'a', text: 'x', payload: { text: null } }, '/points/0/payload'],
  [
    'more than 64 KiB with its payload',
    { id: 'a', text: 'x'.repeat(16_384), payload: { more: 'y'.repeat(50_000) } },
    '/points/0/payload',
  ],
])('a point with %s is 422 with its path', (_what, point, path) => {
  const refused = refusal(() => parseUpsert(bodyOf(point)))
  expect([refused.code, refused.statusCode]).toEqual(['validation_failed', 422])
  expect(refused.errors).toEqual([{ path, message: expect.any(String) }])
})

test('the thread reads texts as the loop does', async () => {
  const entry = new URL('../../../../../services/vectors/accept/upsert-thread.ts', import.meta.url)
  const thread = createBodyThread<ParsedUpsert>(entry, 'upsert', 2 ** 28)
  try {
    const good = bodyOf(
      { id: 'v', vector },
      ...everyLetter.map((text, n) => ({ id: `p${n}`, text, payload: { n } })),
    )
    expect(await thread.parse([Buffer.from(good)])).toEqual(parseUpsert(good))
    const bad = bodyOf({ id: 'a', text: 'x', payload: { text: 'y' } })
    await expect(thread.parse([Buffer.from(bad)])).rejects.toMatchObject({
      code: 'validation_failed',
      errors: refusal(() => parseUpsert(bad)).errors,
    })
  } finally {
    await thread.close()
  }
})

test('a question is a vector or a text, and null counts as left out', () => {
  expect(readQuestion({ vector, text: null })).toEqual(Float32Array.from(vector))
  expect(readQuestion({ vector: null, text: '水' })).toBe('水')
  for (const [given, path] of [
    [{ vector, text: 'x' }, ''],
    [{}, ''],
    [{ text: '' }, '/text'],
    [{ text: 'x'.repeat(16_385) }, '/text'],
    [{ text: '\udc00' }, '/text'],
    [{ vector: [1] }, '/vector'],
  ] as const) {
    expect(refusal(() => readQuestion(given)).errors).toEqual([{ path, message: expect.any(String) }])
  }
})

test('each text gets its own vector, in its own place', async () => {
  const embedder = openLocalEmbedder()
  const parsed = parseUpsert(
    bodyOf({ id: 'a', text: 'a lighthouse' }, { id: 'v', vector }, { id: 'b', text: 'a harbour' }),
  )
  await embedTexts(embedder, parsed, createByteBudget().begin('agent'))
  const [lighthouse, harbour] = await embedder.embed(['a lighthouse', 'a harbour'])
  const at = (n: number) => new Float32Array(parsed.vectors, n * 6_144, 1_536)
  expect([at(0), at(1), at(2)]).toEqual([lighthouse, Float32Array.from(vector), harbour])
  expect(await embedQuestion(embedder, 'a harbour')).toEqual(harbour)
  const questions = ['a harbour', 'a lighthouse']
  expect(await embedQuestions(embedder, questions, '/searches')).toEqual([harbour, lighthouse])
})

test('texts that wait for the embedder count in the budget of their agent until they are done', async () => {
  const budget = createByteBudget()
  const waiting: (() => void)[] = []
  const embed = (texts: string[]) =>
    new Promise<Float32Array[]>((resolve) => {
      waiting.push(() => resolve(texts.map(() => new Float32Array(1_536))))
    })
  const embedder = { embed, ping: async () => {} }
  const longest = Array.from({ length: 1_000 }, (_, n) => ({ id: `p${n}`, text: 'x'.repeat(16_384) }))
  const parsed = parseUpsert(bodyOf(...longest))
  const begin = (agent: string) => embedTexts(embedder, parsed, budget.begin(agent))
  const running = Array.from({ length: 3 }, () => begin('hungry'))
  await expect(begin('hungry')).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1 })
  running.push(begin('other'))
  for (const done of waiting.splice(0)) done()
  await Promise.all(running)
  const again = begin('hungry')
  waiting[0]!()
  await again
})

test('an embedder that refuses a text although it works is a fault of the text, else the embedder is away', async () => {
  const refuses = new AppError('invalid_configuration', 'The embedding endpoint answers 400.')
  const embed = async () => {
    throw refuses
  }
  await expect(embedQuestion({ embed, ping: async () => {} }, 'x')).rejects.toMatchObject({
    code: 'validation_failed',
    errors: [{ path: '/text', message: expect.stringContaining('too long') }],
  })
  const several = embedQuestions({ embed, ping: async () => {} }, ['x', 'y'], '/searches')
  await expect(several).rejects.toMatchObject({ errors: [{ path: '/searches' }] })
  expect(await embedQuestions({ embed, ping: embed }, [], '/searches')).toEqual([])
  await expect(embedQuestion({ embed, ping: embed }, 'x')).rejects.toMatchObject({
    code: 'embedder_unavailable',
    retryAfter: 5,
  })
})

test('an embedder that never answers is away after a while, and its texts keep counting', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const embedder = { embed: () => new Promise<never>(() => {}), ping: async () => {} }
  const held = createByteBudget().begin('agent')
  const parsed = parseUpsert(bodyOf({ id: 'a', text: 'x' }))
  const end = vi.spyOn(held, 'end')
  const [question, texts] = [embedQuestion(embedder, 'x'), embedTexts(embedder, parsed, held)]
  const faults = Promise.allSettled([question, texts])
  await vi.advanceTimersByTimeAsync(deadlines.request.embedTextsMs)
  for (const fault of await faults) {
    expect(fault).toMatchObject({ reason: { code: 'embedder_unavailable', retryAfter: 5 } })
  }
  expect(end).not.toHaveBeenCalled()
})
