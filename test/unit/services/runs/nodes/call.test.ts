/** Calls of nodes, against a node that speaks ADK's protocol in both dialects. */

import { afterEach, describe, expect, it } from 'vitest'
import { createNodeCalls } from '#services/runs/nodes/adk/call.ts'
import { type NodeCall, NodeFault, type RunNode } from '#services/runs/nodes/nodes.ts'
import type { RunEvent } from '#services/runs/state/types.ts'
import { eventually } from '#test/support/eventually.ts'
import {
  echoScript,
  openScriptedNode,
  type Script,
  type ScriptedNode,
  type ScriptedNodeOptions,
} from '#test/support/scripted-node.ts'

const opened: ScriptedNode[] = []
afterEach(async () => {
  for (const node of opened.splice(0)) await node.close()
})

async function nodeWith(script: Script, options: ScriptedNodeOptions = {}): Promise<ScriptedNode> {
  const node = await openScriptedNode({ whale: script }, options)
  opened.push(node)
  return node
}

function entryOf({ url }: { url: string }, fields: Partial<RunNode> = {}): RunNode {
  const whale = { slug: 'whale', codename: 'WHALE', app: 'whale', role: '', skills: [] }
  return { ...whale, url, headers: {}, timeoutMs: 20_000, concurrency: 4, ...fields }
}

function callOf(node: RunNode, fields: Partial<NodeCall> = {}): NodeCall {
  return {
    node,
    runId: 'run_1',
    userId: 'u1',
    sessionId: 's1',
    newMessage: { role: 'user', parts: [{ text: 'hello' }] },
    streaming: true,
    signal: AbortSignal.timeout(20_000),
    ...fields,
  }
}

async function all(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const found: RunEvent[] = []
  for await (const event of events) found.push(event)
  return found
}

async function faultOf(events: AsyncIterable<RunEvent>): Promise<{ seen: RunEvent[]; fault: NodeFault }> {
  const seen: RunEvent[] = []
  try {
    for await (const event of events) seen.push(event)
  } catch (error) {
    if (error instanceof NodeFault) return { seen, fault: error }
    throw error
  }
  throw new Error('no fault')
}

const textOf = ({ content }: RunEvent) => content?.parts[0]?.text

describe.each(['python', 'typescript'] as const)('a node of the %s dialect', (dialect) => {
  it('gives its events in our form, with the session made once', async () => {
    const node = await nodeWith(({ text }) => [{ text: 'he', partial: true }, { text: `heard ${text}` }], {
      dialect,
    })
    const { callNode } = createNodeCalls()
    const events = await all(
      callNode(callOf(entryOf(node), { customMetadata: { goal: 7 }, stateDelta: { a: 1 } })),
    )
    expect(events.map(textOf)).toEqual(['he', 'heard hello'])
    expect(events.map(({ partial }) => partial)).toEqual([true, undefined])
    expect(events[1]).toMatchObject({
      author: 'WHALE',
      invocationId: 'run_1',
      customMetadata: { goal: 7, nodeInvocationId: expect.stringMatching(/^e-/) },
    })
    expect(Math.abs(events[1]!.timestamp - Date.now() / 1000)).toBeLessThan(60)
    expect(node.runs[0]!.body).toMatchObject({ appName: 'whale', streaming: true, stateDelta: { a: 1 } })
    await all(callNode(callOf(entryOf(node))))
    expect(node.requests).toEqual(['POST /apps/whale/users/u1/sessions/s1', 'POST /run_sse', 'POST /run_sse'])
    // Kept for the calls that follow.
    for (let n = 0; n < 5; n++) await all(callNode(callOf(entryOf(node))))
    expect(node.connections).toBeLessThanOrEqual(2)
  })

  it('makes the session again when the node has forgotten it, and takes one that exists', async () => {
    const node = await nodeWith(echoScript, { dialect })
    const { callNode } = createNodeCalls()
    await all(callNode(callOf(entryOf(node))))
    node.forgetSessions()
    expect(await all(callNode(callOf(entryOf(node))))).toHaveLength(1)
    // Another process, which does not know it.
    expect(await all(createNodeCalls().callNode(callOf(entryOf(node))))).toHaveLength(1)
  })
})

it('a message is let go of once the node has it, and sent again where the session was forgotten', async () => {
  const node = await nodeWith(echoScript)
  const { callNode } = createNodeCalls()
  await all(callNode(callOf(entryOf(node))))
  node.forgetSessions()
  const call = callOf(entryOf(node))
  const events = callNode(call)[Symbol.asyncIterator]()
  expect((await events.next()).value.content.parts[0].text).toBe('whale heard: hello')
  expect(call.newMessage.parts).toEqual([])
  expect((await events.next()).done).toBe(true)
})

describe('what ids may be', () => {
  it.each(['a/b', 'ü ?#%', '..'.padStart(100, 'x')])(
    '%j as a session id reaches the node',
    async (sessionId) => {
      const node = await nodeWith(echoScript)
      await all(createNodeCalls().callNode(callOf(entryOf(node), { sessionId, userId: 'me@x y' })))
      expect(node.runs[0]).toMatchObject({ sessionId, userId: 'me@x y' })
    },
  )
})

it('no id leads to another path of the node', async () => {
  const node = await nodeWith(echoScript)
  const base = { url: `${node.url}/base` }
  for (const id of ['.', '..', '../..', '%2e%2e', 'a/../../b']) {
    await faultOf(createNodeCalls().callNode(callOf(entryOf(base), { userId: id, sessionId: id })))
  }
  const paths = node.requests.map((request) => request.split(' ')[1]!)
  expect(paths.length).toBeGreaterThan(4)
  for (const path of paths) expect(path).toMatch(/^\/base\/apps\/whale\/users\/[^/]+\/sessions(\/[^/]+)?$/)
})

describe('a run that fails', () => {
  it('is an agent error when the agent raises, without paths, traces and secrets', async () => {
    const raise = 'no file /home/agents/whale/x.py, token a-very-secret-token at C:\\agents\\y\nTraceback'
    const node = await nodeWith(() => [{ text: 'one' }, { raise }])
    const headers = { Authorization: 'Bearer a-very-secret-token' }
    const { seen, fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node, { headers }))))
    expect(seen.map(textOf)).toEqual(['one'])
    expect(fault.kind).toBe('agent_error')
    expect(fault.message).toBe('RuntimeError: no file [cut], token [cut] at [cut]')
  })

  it.each([
    [500, 'agent_error'],
    [422, 'agent_error'],
    [401, 'unavailable'],
    [404, 'unavailable'],
    [503, 'unavailable'],
    [302, 'unavailable'],
  ])('with HTTP %d is %s', async (status, kind) => {
    const node = await nodeWith(() => [
      { status, body: 'at /home/agents', headers: { location: 'http://x/' } },
    ])
    const { fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(fault.kind).toBe(kind)
    expect(fault.message).not.toContain('home')
  })

  it('is unavailable when nothing listens, and when the node has another agent', async () => {
    const node = await nodeWith(echoScript)
    const other = await faultOf(createNodeCalls().callNode(callOf(entryOf(node, { app: 'nobody' }))))
    expect(other.fault.kind).toBe('unavailable')
    await node.down()
    const { fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(fault.kind).toBe('unavailable')
    expect(fault.message).not.toContain('127.0.0.1')
  })

  it('is an agent error where the node makes no such session', async () => {
    const node = await nodeWith(echoScript)
    const { fault } = await faultOf(
      createNodeCalls().callNode(callOf(entryOf(node), { userId: 'team/alice' })),
    )
    expect([fault.kind, fault.message]).toEqual(['agent_error', expect.stringContaining('HTTP 404')])
    expect(node.requests.length).toBeLessThanOrEqual(2)
  })

  it('is lost when its answer ends within an event, however the connection ends', async () => {
    const half = 'data: {"content":{"parts":[{"text":"the second'
    for (const raw of [half, 'dat', `${half}\n`, `data: {"x":"${'x'.repeat(5_000_000)}`]) {
      const node = await nodeWith(() => [{ text: 'one' }, { raw }])
      const { seen, fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))
      expect(seen.map(textOf)).toEqual(['one'])
      expect(fault.kind).toBe('lost')
    }
  })

  it('is an agent error where the events are encoded', async () => {
    const headers = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }
    const node = await nodeWith(() => [{ status: 200, body: 'packed', headers }])
    const { fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))
    expect([fault.kind, fault.message]).toEqual(['agent_error', expect.stringContaining('encoding')])
  })

  it('is lost when the connection ends in the middle', async () => {
    const node = await nodeWith(() => [{ text: 'one' }, { waitMs: 20 }, { cut: true }])
    const { seen, fault } = await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(seen).toHaveLength(1)
    expect(fault.kind).toBe('lost')
  })

  it.each([['data: {nonsense}\n\n'], ['data: [1]\n\n'], ['data: "text"\n\n'], ['data: null\n\n']])(
    'is an agent error for %j',
    async (raw) => {
      const node = await nodeWith(() => [{ raw }])
      expect((await faultOf(createNodeCalls().callNode(callOf(entryOf(node))))).fault.kind).toBe(
        'agent_error',
      )
    },
  )

  it('yields an error event of the agent like any other', async () => {
    const node = await nodeWith(() => [{ event: { errorCode: 503, errorMessage: 'see /etc/x' } }])
    const [event] = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(event).toMatchObject({ errorCode: '503', errorMessage: 'see [cut]' })
  })

  it.each([
    ['stays silent', [{ hang: true }]],
    [
      'is kept alive by comments',
      Array.from({ length: 200 }, () => [{ raw: ': here\n\n' }, { waitMs: 20 }]).flat(),
    ],
  ] as const)('is over soon behind the end of the turn, though the answer %s', async (_, rest) => {
    const end = { content: { role: 'model', parts: [{ text: 'one' }] }, turnComplete: true }
    const node = await nodeWith(() => [{ event: end }, ...rest])
    const { callNode } = createNodeCalls(undefined, 50)
    expect((await all(callNode(callOf(entryOf(node))))).map(textOf)).toEqual(['one'])
    await eventually('the node sees it', () => node.runs[0]?.aborted === true)
  })

  it('closes the connection when it is aborted, and throws the reason', async () => {
    const node = await nodeWith(() => [{ text: 'one' }, { hang: true }])
    const stop = new AbortController()
    const reason = new Error('canceled')
    const events = createNodeCalls().callNode(callOf(entryOf(node), { signal: stop.signal }))
    const run = (async () => {
      for await (const _ of events) stop.abort(reason)
    })()
    await expect(run).rejects.toBe(reason)
    await eventually('the node sees it', () => node.runs[0]?.aborted === true)
  })
})

describe('what a node may send', () => {
  it('comments, empty frames, CRLF, several data lines, pieces of any size', async () => {
    const text =
      ': ping\r\n\r\n\r\nevent: x\r\nid: 3\r\ndata: {"content":\r\ndata: {"parts":[{"text":"ü"}]}}\r\n\r\n'
    const bytes = Buffer.from(text)
    const node = await nodeWith(() => [...bytes].map((byte) => ({ raw: Buffer.from([byte]) })))
    expect((await all(createNodeCalls().callNode(callOf(entryOf(node))))).map(textOf)).toEqual(['ü'])
  })

  it.each(['\n', '\r', '\r\n'])(
    'lines that end with %j, a byte order mark, a comment at the end',
    async (end) => {
      const text =
        '\ufeffdata: {"content":{"parts":[{"text":"one"}]}}\n\ndata: {"content":\ndata: {"parts":[{"text":"two"}]}}\n\n: bye'
      const bytes = Buffer.from(text.replaceAll('\n', end))
      for (const size of [1, 7, bytes.length]) {
        const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => ({
          raw: bytes.subarray(n * size, (n + 1) * size),
        }))
        const node = await nodeWith(() => pieces)
        expect((await all(createNodeCalls().callNode(callOf(entryOf(node))))).map(textOf)).toEqual([
          'one',
          'two',
        ])
      }
    },
  )

  it('pieces without a whole are joined at the end, and before an event that says what broke off', async () => {
    const piece = (text: string) => ({ text, partial: true })
    const end = { event: { errorCode: 'MAX_TOKENS' } }
    const whole = async (...steps: object[]) => {
      const node = await nodeWith(() => steps as never)
      const events = await all(createNodeCalls().callNode(callOf(entryOf(node))))
      return events.filter(({ partial }) => !partial).map((event) => textOf(event) ?? event.errorCode)
    }
    expect(await whole(piece('one, '), piece('two'))).toEqual(['one, two'])
    expect(await whole(piece('one, '), piece('two'), end)).toEqual(['one, two', 'MAX_TOKENS'])
    expect(await whole(piece('on'), { text: 'one' }, piece('tw'), { text: 'two' })).toEqual(['one', 'two'])
    expect(await whole(piece('on'), { event: { actions: {} } }, { text: 'one' })).toEqual([undefined, 'one'])
  })

  it('numbers that no double holds keep their digits', async () => {
    const raw = 'data: {"customMetadata":{"order":12345678901234567890,"huge":1e400,"plain":0.1}}\n\n'
    const node = await nodeWith(() => [{ raw }])
    const [event] = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(JSON.stringify(event)).toContain('"order":12345678901234567890,"huge":1e400,"plain":0.1')
  })

  it.each([1e300, 1e17, -1, 0])('a time that no Date has, %d, is now', async (timestamp) => {
    const node = await nodeWith(() => [{ event: { timestamp } }])
    const [event] = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(Math.abs(event!.timestamp - Date.now() / 1_000)).toBeLessThan(60)
  })

  it('keeps fields that nobody knows, and replaces ids and times that are none', async () => {
    const odd = {
      id: 7,
      timestamp: 'now',
      content: 'text',
      partial: 'yes',
      usageMetadata: { a: 1 },
      author: 'x',
    }
    const node = await nodeWith(() => [{ event: odd }])
    const [event] = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(event).toMatchObject({ author: 'WHALE', usageMetadata: { a: 1 }, id: expect.any(String) })
    expect(event!.content).toBeUndefined()
    expect(event!.partial).toBeUndefined()
    expect(event!.timestamp).toBeGreaterThan(1e9)
  })

  it.each([
    ['600 kB of text', 'x'.repeat(600_000)],
    ['text that grows as JSON', '\u0001'.repeat(200_000)],
    ['text of three bytes a character', '語'.repeat(300_000)],
  ])('cuts an event of %s and says so', async (_, text) => {
    const node = await nodeWith(() => [{ text }, { text: 'after' }])
    const [event, after] = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(Buffer.byteLength(JSON.stringify(event))).toBeLessThanOrEqual(512 * 1024)
    expect(Buffer.byteLength(JSON.stringify(event))).toBeGreaterThan(400 * 1024)
    expect(textOf(event!)).toMatch(/\[cut: the event had \d+ bytes/)
    expect(event!.customMetadata).toMatchObject({ cut: { bytes: expect.any(Number) } })
    expect(textOf(after!)).toBe('after')
  })

  it('passes over an event that is too large to be kept', async () => {
    const piece = Buffer.alloc(1024 * 1024, 120)
    const pieces = Array.from({ length: 9 }, () => ({ raw: piece }))
    const node = await nodeWith(() => [
      { raw: 'data: {"x":"' },
      ...pieces,
      { raw: '"}\r\n\r\n' },
      { text: 'after' },
    ])
    const events = await all(createNodeCalls().callNode(callOf(entryOf(node))))
    expect(events.map(textOf)).toEqual([expect.stringMatching(/^\[cut: the event had 9\d+ bytes/), 'after'])
  })
})

describe('a probe', () => {
  it('finds the app, and names a missing one', async () => {
    const node = await nodeWith(echoScript, { token: 'a-token-of-a-node' })
    const { probeNode } = createNodeCalls()
    const signal = new AbortController().signal
    const headers = { authorization: 'Bearer a-token-of-a-node' }
    await probeNode(entryOf(node, { headers }), signal)
    await expect(probeNode(entryOf(node, { headers, app: 'x' }), signal)).rejects.toThrow('has no app x')
    await expect(probeNode(entryOf(node), signal)).rejects.toThrow('HTTP 401')
    await node.down()
    await expect(probeNode(entryOf(node), signal)).rejects.toMatchObject({ kind: 'unavailable' })
  })

  it('asks a server once for all its agents', async () => {
    const node = await nodeWith(echoScript)
    const { probeNode } = createNodeCalls()
    const signal = new AbortController().signal
    const asked = () => node.requests.filter((request) => request.endsWith('/list-apps')).length
    const found = await Promise.allSettled([
      probeNode(entryOf(node), signal),
      probeNode(entryOf(node, { app: 'x' }), signal),
      probeNode(entryOf(node), signal),
    ])
    expect(found.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(asked()).toBe(1)
    await probeNode(entryOf(node), signal)
    expect(asked()).toBe(2)
  })
})
