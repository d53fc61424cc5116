/** Callers that leave at any moment give their places back, and their runs go on. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())

it('places and runs survive two hundred callers that leave', async () => {
  platform.script('whale', () => [{ text: 'one' }, { waitMs: 40 }, { text: 'two' }])
  const key = await platform.keyOf('one-that-leaves')
  const ways = [
    { path: '/whale/run', headers: {} },
    { path: '/whale/run', headers: { accept: 'text/event-stream' } },
    { path: '/whale/run?join=false', headers: { prefer: 'wait=1' } },
    { path: '/dispatch', headers: { accept: 'text/event-stream' } },
  ]
  async function leave(n: number): Promise<void> {
    const { path, headers } = ways[n % ways.length] as (typeof ways)[0]
    const cut = new AbortController()
    setTimeout(() => cut.abort(), (n * 7) % 60)
    const body = path === '/dispatch' ? { message: 'x' } : { newMessage: message('x') }
    await fetch(`${platform.runUrl}${path}`, {
      method: 'POST',
      signal: cut.signal,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
      .then((answer) => answer.text())
      .catch(() => undefined)
  }
  for (let n = 0; n < 200; n += 5) await Promise.all([0, 1, 2, 3, 4].map((k) => leave(n + k)))
  const open = async (status: string) =>
    ((await platform.call('GET', `/runs?status=${status}&limit=1000`, { key })).json as unknown as object[])
      .length
  await eventually(
    'every run ends',
    async () => (await open('queued')) + (await open('running')) === 0,
    60_000,
  )
  expect(await open('failed')).toBe(0)
  // All ten places are there.
  platform.script('whale', () => [{ waitMs: 1_000 }, { text: 'done' }])
  const answers = await Promise.all(Array.from({ length: 10 }, () => platform.run('whale', 'x', { key })))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
}, 120_000)
