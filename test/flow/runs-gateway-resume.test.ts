/** Streams over two gateways, with breaks, slow readers and a log that says nothing: ids 1..n, each once. */

import { request as httpRequest } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { echoScript, type Step } from '#test/support/scripted-node.ts'
import { openSecondRunGateway, type SecondRunGateway } from '#test/support/second-run-gateway.ts'
import { readSse } from '#test/support/sse-reader.ts'

let platform: RunsPlatform
let second: SecondRunGateway

beforeAll(async () => {
  platform = await openRunsPlatform()
  second = await openSecondRunGateway(platform.platform)
})
afterAll(async () => {
  await second?.close()
  await platform?.close()
})
afterEach(() => {
  second.logSilent = false
  platform.script('whale', echoScript)
})

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1)

/** Events with pauses, pieces between them. */
async function* talkative(count: number, waitMs: number): AsyncGenerator<Step> {
  for (let n = 1; n <= count; n++) {
    yield { text: `piece of ${n}`, partial: true }
    yield { text: `event ${n}` }
    yield { waitMs }
  }
}

describe('a reader whose gateway is gone', () => {
  it('goes on at another one, again and again, and has every id once', async () => {
    platform.script('whale', () => talkative(60, 15))
    const key = await platform.memberKey()
    let url = `${second.url}/whale/run`
    const first = await readSse(url, { key, body: { newMessage: message('x'), streaming: true } })
    const ids: number[] = []
    let reader = first
    const runId = first.headers.get('x-run-id') as string
    for (let turn = 0; ; turn++) {
      const wanted = ids.length + reader.frames.length + 5
      await Promise.race([
        eventually('some events', () => ids.length + reader.ids().length >= wanted),
        reader.over,
      ])
      if (turn % 2 === 0) second.drop()
      else reader.cut()
      await reader.over
      ids.push(...reader.ids())
      if (reader.end()) break
      url = `${turn % 2 === 0 ? platform.runUrl : second.url}/runs/${runId}/events`
      reader = await readSse(url, { key, ...(ids.length > 0 ? { lastEventId: String(ids.at(-1)) } : {}) })
    }
    expect(ids).toEqual(numbers(60))
    expect(reader.end().run).toMatchObject({ runId, status: 'completed', lastEventId: 60 })
  })

  it('learns nothing but the end of the connection when the gateway stops', async () => {
    platform.script('whale', () => talkative(20, 50))
    const third = await openSecondRunGateway(platform.platform)
    const key = await platform.memberKey()
    const reader = await readSse(`${third.url}/whale/run`, { key, body: { newMessage: message('x') } })
    const waiting = fetch(`${third.url}/whale/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ newMessage: message('y') }),
    })
    await eventually('it runs', () => reader.frames.length > 2)
    await eventually(
      'both run',
      () => platform.node.runs.filter(({ app, endedAt }) => app === 'whale' && !endedAt).length === 2,
    )
    await third.close()
    await reader.over
    expect(reader.end()).toBeUndefined()
    expect(reader.frames.every(({ data }) => data.author === 'WHALE')).toBe(true)
    // The call that waited for the whole answer learns where it will be.
    const answer = await waiting
    expect(answer.status).toBe(202)
    const { runId } = (await answer.json()) as { runId: string }
    const rest = await platform.stream(`/runs/${runId}/events`)
    await rest.over
    expect(rest.ids()).toEqual(numbers(20))
  })
})

describe('a log that says nothing', () => {
  it('costs a second, and no event', async () => {
    second.logSilent = true
    platform.script('whale', () => talkative(30, 20))
    const key = await platform.memberKey()
    const body = { newMessage: message('x') }
    const [reader, answer] = await Promise.all([
      readSse(`${second.url}/whale/run`, { key, body }),
      fetch(`${second.url}/whale/run`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    ])
    await reader.over
    expect(reader.ids()).toEqual(numbers(30))
    expect(reader.end().run.status).toBe('completed')
    expect((await answer.json()) as unknown[]).toHaveLength(30)
  })
})

describe('a slow reader', () => {
  it('has every event once when it reads on, and holds up nobody', async () => {
    const text = 'x'.repeat(20_000)
    platform.script('whale', () => numbers(400).map((n) => ({ text: `${n} ${text}` })))
    const key = await platform.memberKey()
    const body = JSON.stringify({ newMessage: message('x') })
    const chunks: Buffer[] = []
    const done = Promise.withResolvers<void>()
    const sent = httpRequest(`${platform.runUrl}/whale/run`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
    })
    sent.on('response', (response) => {
      response.pause()
      response.on('data', (chunk: Buffer) => void chunks.push(chunk))
      response.on('end', () => done.resolve())
      const runId = response.headers['x-run-id'] as string
      void eventually('the run has ended', async () => {
        return (await platform.call('GET', `/runs/${runId}`)).json.status === 'completed'
      }).then(() => response.resume())
    })
    sent.end(body)
    const other = await platform.run('pulse', 'meanwhile')
    expect(other.status).toBe(200)
    await done.promise
    const ids = [
      ...Buffer.concat(chunks)
        .toString()
        .matchAll(/^id: (\d+)$/gm),
    ].map(([, id]) => Number(id))
    expect(ids).toEqual(numbers(401))
  })
})
