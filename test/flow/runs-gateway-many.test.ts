/** Two hundred sessions at once on five agents, one of which hangs: the others are not held up. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform
/** Ten answers of one caller may wait at once. */
let keys: string[]

beforeAll(async () => {
  platform = await openRunsPlatform()
  keys = await Promise.all(Array.from({ length: 20 }, (_, n) => platform.keyOf(`caller-${n}`)))
})
afterAll(() => platform?.close())

const healthy = ['whale', 'pulse', 'atlas', 'nexus']
const eachOf = 40

/** Sends as many messages to each healthy agent at once; resolves when all are answered. */
async function answerAll(): Promise<void> {
  const runs = healthy.flatMap((slug) =>
    Array.from({ length: eachOf }, async (_, n) => {
      const answer = await platform.run(slug, `m${n}`, {
        key: keys[n % keys.length] as string,
        fields: { sessionId: `${slug}-${n}` },
      })
      const author = slug.toUpperCase()
      expect(talkOf(answer)).toEqual([`${author}: m${n} one`, `${author}: m${n} two`])
    }),
  )
  await Promise.all(runs)
}

async function allAreReported(runs: number): Promise<void> {
  const key = await platform.keyFor('admin')
  // One report for each, once.
  await eventually('all is reported', async () => {
    const reports = await platform.call('GET', '/runs?agent=axon&status=completed&limit=1000', { key })
    return (reports.json as unknown as unknown[]).length === runs
  })
}

it('answers 160 runs while 40 hang and none of those has ended', async () => {
  for (const slug of healthy) {
    platform.script(slug, ({ text }) => [{ text: `${text} one` }, { waitMs: 20 }, { text: `${text} two` }])
  }
  platform.script('cipher', () => [{ hang: true }])
  const hanging: string[] = []
  const hangs = async (n: number) => {
    const answer = await platform.run('cipher', `m${n}`, {
      key: keys[n % keys.length] as string,
      fields: { sessionId: `cipher-${n}` },
      headers: { prefer: 'respond-async' },
    })
    expect(answer.status).toBe(202)
    hanging.push(answer.json.runId as string)
  }
  const key = await platform.keyFor('admin')
  const countOf = async (status: string) => {
    const runs = await platform.call('GET', `/runs?agent=cipher&status=${status}&limit=1000`, { key })
    return (runs.json as unknown as unknown[]).length
  }
  await Promise.all(Array.from({ length: eachOf }, (_, n) => hangs(n)))
  await eventually('the node hangs', async () => (await countOf('running')) > 0)
  await answerAll()
  expect((await countOf('running')) + (await countOf('queued'))).toBe(eachOf)

  for (const runId of hanging) await platform.call('POST', `/runs/${runId}/cancel`, { key })
  await eventually('all are canceled', async () => (await countOf('canceled')) === eachOf)
  await allAreReported((healthy.length + 1) * eachOf)
})
