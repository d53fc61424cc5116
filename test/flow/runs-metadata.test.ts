/** Metadata of runs: kept as its caller gave it, shown, and a filter of lists. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())

const runWith = (metadata: unknown, more: object = {}) =>
  platform.run('whale', 'hello', { fields: { metadata, ...more } })
const listed = async (query: string) => {
  const answer = await platform.call('GET', `/runs?${query}`)
  return (answer.json as unknown as { runId: string }[]).map(({ runId }) => runId)
}
const idOf = (answer: { headers: Headers }) => answer.headers.get('x-run-id') as string

describe('metadata', () => {
  it('is shown with the run as it was given, and is empty without any', async () => {
    const metadata = { ticket: '4711', 'a key/with "signs"': 'ä💡', __proto: '' }
    const made = await runWith(metadata)
    expect((await platform.call('GET', `/runs/${idOf(made)}`)).json.metadata).toEqual(metadata)
    const without = await platform.run('whale', 'hello')
    expect((await platform.call('GET', `/runs/${idOf(without)}`)).json.metadata).toEqual({})
  })

  it('filters lists, all of several together', async () => {
    const both = idOf(await runWith({ team: 'red', step: '1' }))
    const one = idOf(await runWith({ team: 'red', step: '2' }))
    expect(await listed('metadata.team=red')).toEqual([one, both])
    expect(await listed('metadata.team=red&metadata.step=1')).toEqual([both])
    expect(await listed('metadata.team=red&metadata.step=1&agent=WHALE&limit=1')).toEqual([both])
    expect(await listed('metadata.team=blue')).toEqual([])
    expect(await listed('metadata.tea=red')).toEqual([])
  })

  it('goes on over pages', async () => {
    const made = []
    for (const step of ['a', 'b', 'c']) made.unshift(idOf(await runWith({ paged: 'yes', step })))
    const first = await platform.call('GET', '/runs?metadata.paged=yes&limit=2')
    const next = /<([^>]*)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] as string
    const second = await platform.call('GET', next)
    const pages = [first, second].map(({ json }) => json as unknown as { runId: string }[])
    expect(pages.map((page) => page.map(({ runId }) => runId))).toEqual([made.slice(0, 2), made.slice(2)])
  })

  it('belongs to each run of a dispatch', async () => {
    const made = await platform.call('POST', '/dispatch', {
      body: { message: 'hi', metadata: { wave: '7' } },
    })
    expect(made.status).toBe(202)
    const { runs } = made.json as unknown as { runs: { runId: string }[] }
    expect((await listed('metadata.wave=7')).toSorted()).toEqual(runs.map(({ runId }) => runId).toSorted())
  })

  it('is sent and looked for by the client', async () => {
    const client = await platform.clientOf('scout', { runUrl: platform.runUrl })
    const { run } = await client.runs.run('whale', 'hello', { metadata: { by: 'client' } })
    expect(run.metadata).toEqual({ by: 'client' })
    await client.runs.run('whale', 'hello')
    const { runs } = await client.runs.list({ metadata: { by: 'client' } })
    expect(runs.map(({ runId }) => runId)).toEqual([run.runId])
    await client.close()
  })

  it.each([
    ['17 names', Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, ''])), 16],
    ['a long name', { ['k'.repeat(65)]: '' }, 64],
    ['an empty name', { '': 'x' }, 64],
    ['a long text', { k: 'x'.repeat(513) }, 512],
    ['NUL in a text', { k: 'a\0b' }, 'NUL'],
    ['NUL in a name', { 'a\0b': '' }, 'NUL'],
    ['a number', { k: 1 }, 'text'],
    ['a list', [], 'object'],
  ])('is refused with %s, and the fault is named', async (_, metadata, word) => {
    const answer = await runWith(metadata)
    expect([answer.status, answer.json.code]).toEqual([422, 'validation_failed'])
    const { errors } = answer.json as unknown as { errors: { path: string; message: string }[] }
    expect(errors[0]!.path).toMatch(/^\/metadata/)
    expect(errors[0]!.message).toContain(String(word))
    const dispatch = await platform.call('POST', '/dispatch', { body: { message: 'hi', metadata } })
    expect(dispatch.status).toBe(422)
  })

  it('takes the greatest sizes, and a body in snake_case', async () => {
    const names = Array.from({ length: 16 }, (_, n) => `${n}`.padStart(2, '0') + '💡'.repeat(62))
    const metadata = Object.fromEntries(names.map((name) => [name, '💡'.repeat(512)]))
    const answer = await platform.call('POST', '/whale/run', {
      body: { new_message: message('hi'), metadata },
    })
    expect(answer.status).toBe(200)
    expect((await platform.call('GET', `/runs/${idOf(answer)}`)).json.metadata).toEqual(metadata)
  })

  it.each([
    'metadata.=x',
    `metadata.${'k'.repeat(65)}=x`,
    'metadata.k=%00',
    'metadata.k=1&metadata.k=2',
    'meta.k=1',
  ])('as a filter refuses %s', async (query) => {
    expect((await platform.call('GET', `/runs?${query}`)).status).toBe(422)
  })
})
