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
}, 60_000)
afterAll(() => platform?.close())

const healthy = ['whale', 'pulse', 'atlas', 'nexus']
const eachOf = 40
/** With the fifth hanging the others may take this much longer: there is noise in both, and no queue behind the fifth. */
const ratioMax = 3

/** Sends as many messages to each agent at once; resolves with the 95th percentile of the healthy ones' times, in ms. */
async function round(name: string, fifth: (n: number) => Promise<void>): Promise<number> {
  const times: number[] = []
  const runs = healthy.flatMap((slug) =>
    Array.from({ length: eachOf }, async (_, n) => {
      const begun = performance.now()
      const answer = await platform.run(slug, `m${n}`, {
        key: keys[n % keys.length] as string,
        fields: { sessionId: `${name}-${slug}-${n}` },
      })
      times.push(performance.now() - begun)
      const author = slug.toUpperCase()
      expect(talkOf(answer)).toEqual([`${author}: m${n} one`, `${author}: m${n} two`])
    }),
  )
  await Promise.all([...runs, ...Array.from({ length: eachOf }, (_, n) => fifth(n))])
  return times.sort((a, b) => a - b)[Math.ceil(times.length * 0.95) - 1]!
}

async function allAreReported(runs: number): Promise<void> {
  const key = await platform.keyFor('admin')
  // One report for each, once.
  await eventually('all is reported', async () => {
    const reports = await platform.call('GET', '/runs?agent=axon&status=completed&limit=1000', { key })
    return (reports.json as unknown as unknown[]).length === runs
  })
}

it('answers 160 runs while 40 hang, about as fast as while those 40 run, too', async () => {
  const all = (healthy.length + 1) * eachOf
  for (const slug of [...healthy, 'cipher']) {
    platform.script(slug, ({ text }) => [{ text: `${text} one` }, { waitMs: 20 }, { text: `${text} two` }])
  }
  const answered = (name: string) => async (n: number) => {
    const key = keys[n % keys.length] as string
    const answer = await platform.run('cipher', `m${n}`, {
      key,
      fields: { sessionId: `${name}-cipher-${n}` },
    })
    expect(answer.status).toBe(200)
  }
  await round('warm', answered('warm'))
  await allAreReported(all)
  const without = await round('without', answered('without'))
  await allAreReported(2 * all)

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
  const withHanging = await round('hanging', hangs)
  expect(hanging).toHaveLength(eachOf)
  expect(withHanging / without).toBeLessThan(ratioMax)

  const key = await platform.keyFor('admin')
  const [first] = hanging
  expect((await platform.call('GET', `/runs/${first}`, { key })).json.status).toBe('running')
  for (const runId of hanging) await platform.call('POST', `/runs/${runId}/cancel`, { key })
  await eventually('all are canceled', async () => {
    const open = await platform.call('GET', '/runs?agent=cipher&status=running', { key })
    return (open.json as unknown as unknown[]).length === 0
  })
  await allAreReported(3 * all)
}, 120_000)
