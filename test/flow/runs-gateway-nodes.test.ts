/** Faults of a node, seen by a caller: the run ends, the answer is sound, and the next one works. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { deleteAgent, updateAgent } from '#services/access/agents/agents.ts'
import { eventually } from '#test/support/eventually.ts'
import { agents, message, openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'
import { echoScript, type Step } from '#test/support/scripted-node.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())
afterEach(() => {
  for (const slug of agents) platform.script(slug, echoScript)
})

const textEvent = (text: string) => ({ content: { role: 'model', parts: [{ text }] } })
const data = (json: string): Step => ({ raw: `data: ${json}\n\n` })
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

describe('an agent that sends', () => {
  it.each<[string, Step[], number, string | null]>([
    [
      'NUL and half a pair',
      [data('{"content":{"parts":[{"text":"a\\u0000b \\ud800 PULSE\\u0000"}]}}')],
      200,
      null,
    ],
    ['NUL in an error', [{ event: { errorCode: 'X\0', errorMessage: 'bad\0 \ud800' } }], 502, 'agent_error'],
    ['an error without a text', [{ event: { errorCode: 'SAFETY' } }], 502, 'agent_error'],
    ['a little nesting', [data(`{"content":{"parts":[{"text":"x"}]},"x":${nested(50)}}`)], 200, null],
    [
      'nesting too deep',
      [data(`{"content":{"parts":[{"text":"x"}]},"x":${nested(100_000)}}`)],
      502,
      'agent_error',
    ],
    [
      'odd keys',
      [data('{"__proto__":{"a":1},"constructor":1,"content":{"parts":[{"text":"x"}]}}')],
      200,
      null,
    ],
    ['parts that are none', [{ event: { content: { parts: 'x' } } }], 200, null],
    [
      'no stream',
      [{ status: 200, body: '{"ok":true}', headers: { 'content-type': 'application/json' } }],
      502,
      'agent_error',
    ],
    [
      'bytes that are no UTF-8',
      [{ raw: Buffer.from([...Buffer.from('data: {"author":"'), 0xff, 0xfe, ...Buffer.from('"}\n\n')]) }],
      200,
      null,
    ],
    ['half a frame', [{ text: 'whole' }, { raw: 'data: {"content":' }], 502, 'node_lost'],
    ['an ordinary end as an error', [{ text: 'whole' }, { event: { errorCode: 'STOP' } }], 200, null],
    ['a text that its limit cut', [{ event: { ...textEvent('half'), errorCode: 'MAX_TOKENS' } }], 200, null],
    ['a limit without a text', [{ event: { errorCode: 'MAX_TOKENS' } }], 502, 'agent_error'],
    ['text and then a fault', [{ text: 'half' }, { event: { errorCode: 'SAFETY' } }], 502, 'agent_error'],
    [
      'pieces alone',
      [
        { text: 'one, ', partial: true },
        { text: 'two', partial: true },
      ],
      200,
      null,
    ],
    [
      'pieces and a fault',
      [{ text: 'on', partial: true }, { event: { errorCode: 'OTHER' } }],
      502,
      'agent_error',
    ],
    ['a megabyte of text', [{ text: 'x'.repeat(1024 * 1024) }], 200, null],
    [
      'events of a thousand parts',
      [{ event: { content: { parts: Array.from({ length: 1_000 }, (_, n) => ({ text: `${n}` })) } } }],
      200,
      null,
    ],
  ])('%s', async (_, steps, status, code) => {
    platform.script('whale', () => steps)
    const answer = await platform.run('whale', 'x')
    expect([answer.status, answer.json.code ?? null]).toEqual([status, code])
    const runId = answer.headers.get('x-run-id') as string
    const stream = await platform.stream(`/runs/${runId}/events`)
    await stream.over
    expect(stream.end().run.endedAt).not.toBeNull()
    platform.script('whale', echoScript)
    expect(talkOf(await platform.run('whale', 'next'))).toEqual(['WHALE: whale heard: next'])
  })

  it('the headers of its request does not show the credential of the nodes file, also in pieces', async () => {
    const secret = 'the-credential-"of"-a-node'
    const at = { url: platform.node.url, concurrency: 200 }
    const others = Object.fromEntries(agents.map((slug) => [slug, at]))
    platform.writeNodes({ ...others, telltale: { ...at, headers: { Authorization: `Bearer ${secret}` } } })
    platform.script('telltale', ({ headers }) => [
      { text: JSON.stringify(headers), partial: true },
      { event: { ...textEvent(JSON.stringify(headers)), customMetadata: { headers, [secret]: true } } },
    ])
    await eventually('it is found', async () => (await platform.run('telltale', 'x')).status === 200)
    const stream = await platform.stream('/telltale/run', {
      body: { newMessage: message('x'), streaming: true },
    })
    await stream.over
    const asked = platform.node.runs.findLast(({ app }) => app === 'telltale')!
    expect(asked.headers.authorization).toBe(`Bearer ${secret}`)
    const shown = JSON.stringify(stream.frames)
    expect(shown).toContain('[cut]')
    expect(shown).not.toContain('the-credential')
    const again = await platform.stream(`/runs/${stream.end().run.runId}/events`)
    await again.over
    expect(JSON.stringify(again.frames)).not.toContain('the-credential')
    platform.writeNodes(others)
  })

  it('more events than a run may have', async () => {
    platform.script('whale', function* (): Generator<Step> {
      for (let n = 0; ; n++) yield { text: `${n}` }
    })
    const answer = await platform.run('whale', 'x', { headers: { prefer: 'respond-async' } })
    const path = `/runs/${answer.json.runId}`
    await eventually(
      'it fails',
      async () => (await platform.call('GET', path)).json.status === 'failed',
      280_000,
    )
    expect((await platform.call('GET', path)).json).toMatchObject({
      error: { code: 'too_many_events' },
      lastEventId: 10_000,
    })
    const stream = await platform.stream(`${path}/events`, { lastEventId: '9990' })
    await stream.over
    expect(stream.ids()).toEqual([9_991, 9_992, 9_993, 9_994, 9_995, 9_996, 9_997, 9_998, 9_999, 10_000])
  }, 300_000)

  it('pieces faster than anyone reads: they may be left out, the text never', async () => {
    platform.script('whale', () => [
      ...Array.from(
        { length: 5_000 },
        (_, n): Step => ({ text: `piece ${n} ${'x'.repeat(200)}`, partial: true }),
      ),
      { text: 'the whole text' },
    ])
    const stream = await platform.stream('/whale/run', {
      body: { newMessage: message('x'), streaming: true },
    })
    await stream.over
    expect(stream.ids()).toEqual([1])
    expect(stream.frames.at(-2)!.data.content.parts[0].text).toBe('the whole text')
    const pieces = stream.frames
      .filter((frame) => frame.data.partial)
      .map(({ data: event }) => Number(event.content.parts[0].text.split(' ')[1]))
    expect(pieces).toEqual([...pieces].sort((a, b) => a - b))
  })
})

describe('a node', () => {
  it('that is away for a moment is tried again', async () => {
    await platform.node.down()
    const answering = platform.run('whale', 'x')
    await new Promise((resolve) => setTimeout(resolve, 300))
    await platform.node.up()
    expect((await answering).status).toBe(200)
  })

  it('that loses its sessions gets them again', async () => {
    const fields = { sessionId: 's-forgotten' }
    await platform.run('whale', 'x', { fields })
    platform.node.forgetSessions()
    expect((await platform.run('whale', 'y', { fields })).status).toBe(200)
  })

  it('that is taken out of the file is not found; one that is put in is', async () => {
    const nodes = Object.fromEntries(
      agents.map((slug) => [slug, { url: platform.node.url, concurrency: 200 }]),
    )
    const { pulse: _, ...without } = nodes
    platform.script('newcomer', echoScript)
    platform.writeNodes({ ...without, newcomer: { url: platform.node.url } } as never)
    await eventually('it is found', async () => (await platform.run('newcomer', 'x')).status === 200)
    expect((await platform.run('pulse', 'x')).json.code).toBe('agent_not_found')
    platform.writeNodes(nodes)
    await eventually('it is back', async () => (await platform.run('pulse', 'x')).status === 200)
  })
})

describe('a right that ends', () => {
  it('is checked again when its agent changes: a waiting call learns where its answer will be', async () => {
    platform.script('whale', () => [{ text: 'one' }, { waitMs: 700 }, { text: 'two' }])
    const key = await platform.keyOf('one-to-be-changed')
    const before = platform.node.runs.length
    const waiting = platform.run('whale', 'x', { key })
    await eventually('it runs', () => platform.node.runs.length > before)
    await updateAgent(platform.platform.engines.relational, 'one-to-be-changed', { role: 'another' })
    const answer = await waiting
    expect([200, 202]).toContain(answer.status)
    const path = `/runs/${answer.headers.get('x-run-id')}/events`
    // The news of the change may reach the gateway after this stream began and end it, too: callers come back.
    const ids: number[] = []
    await eventually('its stream has come to the end', async () => {
      const stream = await platform.stream(path, { key, lastEventId: String(ids.at(-1) ?? 0) })
      await stream.over
      ids.push(...stream.ids())
      return stream.end() !== undefined
    })
    expect(ids).toEqual([1, 2])
  })

  it('ends its streams and waits within a second', async () => {
    platform.script('whale', () => [{ text: 'one' }, { hang: true }])
    const key = await platform.keyOf('one-to-be-deleted')
    const stream = await platform.stream('/whale/run', { key, body: { newMessage: message('x') } })
    const waiting = platform.run('whale', 'x', { key })
    await eventually(
      'both run',
      () => platform.node.runs.filter(({ app, endedAt }) => app === 'whale' && !endedAt).length === 2,
    )
    await deleteAgent(platform.platform.engines.relational, 'one-to-be-deleted')
    await stream.over
    expect(stream.end()).toBeUndefined()
    expect((await waiting).status).toBe(401)
    const admin = await platform.keyFor('admin')
    const open = (await platform.call('GET', '/runs?status=running&agent=whale', { key: admin })).json
    expect(open).toHaveLength(2)
    for (const { runId } of open as unknown as { runId: string }[]) {
      await platform.call('POST', `/runs/${runId}/cancel`, { key: admin })
    }
  })
})
