/** Parts of messages over HTTP, and on the embedded relational engine. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { openEmptyRelational } from '../support/relational.ts'
import { describePartsOfRuns } from './runs-parts.promises.ts'

describePartsOfRuns('the embedded engine', () => openEmptyRelational())

describe('a message over HTTP', () => {
  let platform: RunsPlatform
  beforeAll(async () => {
    platform = await openRunsPlatform()
  })
  afterAll(() => platform?.close())

  const send = (parts: unknown[], more: object = {}) =>
    platform.call('POST', '/whale/run', { body: { newMessage: { parts }, ...more } })
  const given = (slug: string) =>
    platform.node.runs
      .filter(({ app }) => app === slug)
      .map(({ body }) => body.newMessage as { parts: unknown[] })

  it('may be bytes alone, a mebibyte of them, next to a long text that JSON escapes', async () => {
    const inlineData = { mimeType: 'image/png', data: randomBytes(1024 * 1024).toString('base64') }
    expect((await send([{ inlineData }])).status).toBe(200)
    expect(given('whale').at(-1)!.parts).toEqual([{ inlineData }])
    const text = '\u0001'.repeat(32 * 1024 - 100)
    const both = await send([{ text }, { inlineData }], { customMetadata: { a: 'x'.repeat(60_000) } })
    expect(both.status).toBe(200)
    expect(given('whale').at(-1)!.parts).toEqual([{ text }, { inlineData }])
  })

  it('comes back as it was from an agent that repeats it', async () => {
    platform.script('whale', ({ body }) => [{ event: { content: body.newMessage } }])
    const parts = [
      { inline_data: { mime_type: 'a/b', data: randomBytes(300 * 1024).toString('base64') } },
      { functionResponse: { id: '1', name: 'ask', response: { z: 'ü', a: [{ b: null }] } } },
    ]
    const { json } = await send(parts)
    const [event] = json as unknown as { content: { parts: unknown } }[]
    expect(JSON.stringify(event!.content.parts)).toBe(JSON.stringify(parts))
  })

  it('goes to all agents of a dispatch with its parts; the goal has its text', async () => {
    const parts = [{ fileData: { fileUri: 'gs://reports/relay.pdf' } }, { text: 'Read the file.' }]
    const made = await platform.call('POST', '/dispatch', { body: { message: { parts } } })
    expect(made.status).toBe(202)
    await eventually('all have it', () =>
      ['pulse', 'cipher', 'atlas', 'nexus'].every((slug) => given(slug).length > 0),
    )
    for (const slug of ['pulse', 'cipher', 'atlas', 'nexus']) expect(given(slug)[0]!.parts).toEqual(parts)
    const silent = await platform.call('POST', '/dispatch', {
      body: { message: { parts: parts.slice(0, 1) } },
    })
    expect(silent.status).toBe(202)
  })

  it.each<[string, unknown[], number, string]>([
    ['an unknown kind', [{ audio: {} }], 422, '/newMessage/parts/0'],
    ['two kinds', [{ text: 'x', fileData: { fileUri: 'x' } }], 422, '/newMessage/parts/0'],
    ['no base64', [{ inlineData: { mimeType: 'a', data: '%' } }], 422, '/newMessage/parts/0/inlineData/data'],
    ['NUL', [{ functionResponse: { name: 'a', response: { 'a\0': 1 } } }], 422, '/newMessage/parts'],
    ['NUL in a file', [{ fileData: { fileUri: 'a\0' } }], 422, '/newMessage/parts'],
    ['a text', ['x'], 422, '/newMessage/parts/0'],
  ])('with %s is refused at its place', async (_, parts, status, path) => {
    const answer = await send(parts)
    expect([answer.status, answer.json.code]).toEqual([status, 'validation_failed'])
    expect((answer.json.errors as { path: string }[])[0]!.path).toBe(path)
  })

  it('with too many bytes is refused, and with a body that is too large', async () => {
    const inlineData = (size: number) => ({ mimeType: 'a/b', data: 'A'.repeat(size) })
    for (const size of [1_398_104, 3 * 1024 * 1024]) {
      const answer = await send([{ inlineData: inlineData(size) }])
      expect([answer.status, answer.json.code]).toEqual([413, 'payload_too_large'])
    }
  })
})
