/** Two hundred sessions at once on five agents, one of which hangs: the others are not held up. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
}, 60_000)
afterAll(() => platform?.close())

const slugs = ['whale', 'pulse', 'cipher', 'atlas', 'nexus']
const eachOf = 40

it('answers 160 runs while 40 hang', async () => {
  for (const slug of slugs) {
    platform.script(slug, ({ text }) => [{ text: `${text} one` }, { waitMs: 20 }, { text: `${text} two` }])
  }
  platform.script('cipher', () => [{ hang: true }])
  // Ten answers of one caller may wait at once.
  const keys = await Promise.all(Array.from({ length: 20 }, (_, n) => platform.keyOf(`caller-${n}`)))
  const hanging: string[] = []
  const runs = slugs.flatMap((slug) =>
    Array.from({ length: eachOf }, async (_, n) => {
      const isHanging = slug === 'cipher'
      const answer = await platform.run(slug, `m${n}`, {
        key: keys[n % keys.length] as string,
        fields: { sessionId: `${slug}-${n}` },
        headers: isHanging ? { prefer: 'respond-async' } : {},
      })
      if (isHanging) {
        expect(answer.status).toBe(202)
        hanging.push(answer.json.runId as string)
        return
      }
      const author = slug.toUpperCase()
      expect(talkOf(answer)).toEqual([`${author}: m${n} one`, `${author}: m${n} two`])
    }),
  )
  await Promise.all(runs)
  expect(hanging).toHaveLength(eachOf)
  const key = await platform.keyFor('admin')
  const [first] = hanging
  expect((await platform.call('GET', `/runs/${first}`, { key })).json.status).toBe('running')
  for (const runId of hanging) await platform.call('POST', `/runs/${runId}/cancel`, { key })
  await eventually('all are canceled', async () => {
    const open = await platform.call('GET', '/runs?agent=cipher&status=running', { key })
    return (open.json as unknown as unknown[]).length === 0
  })
  // One report for each, once.
  await eventually('all is reported', async () => {
    const reports = await platform.call('GET', '/runs?agent=axon&limit=1000', { key })
    return (reports.json as unknown as unknown[]).length === slugs.length * eachOf
  })
}, 60_000)
