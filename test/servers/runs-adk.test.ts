/** The client of nodes against the real api_server of Google ADK, with agents that follow a script. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { createNodeCalls } from '#services/runs/nodes/adk/call.ts'
import { type NodeCall, NodeFault, type RunNode } from '#services/runs/nodes/nodes.ts'
import type { RunEvent } from '#services/runs/state/types.ts'
import { type AdkServer, openAdkServer } from '../../scripts/servers/adk.ts'
import { eventsIn, exchangeNames, readExchanges, withoutIds } from '../support/adk-exchanges.ts'
import { eventually } from '../support/eventually.ts'

let adk: AdkServer
const { callNode, probeNode } = createNodeCalls()

beforeAll(async () => {
  adk = await openAdkServer()
})

afterAll(async () => {
  await adk?.close()
})

function nodeOf(app: string): RunNode {
  const codename = app.toUpperCase()
  const node = { slug: app, codename, role: '', skills: [], url: adk.url, app, headers: {} }
  return { ...node, timeoutMs: 60_000, concurrency: 4 }
}

let runs = 0

function call(app: string, more: Partial<NodeCall> & { text?: string } = {}): AsyncIterable<RunEvent> {
  const { text = 'hello', ...given } = more
  return callNode({
    node: nodeOf(app),
    runId: `run_${++runs}`,
    userId: 'u',
    sessionId: 's',
    newMessage: { role: 'user', parts: [{ text }] },
    streaming: false,
    signal: new AbortController().signal,
    ...given,
  })
}

async function eventsOf(app: string, more?: Parameters<typeof call>[1]): Promise<RunEvent[]> {
  const events: RunEvent[] = []
  for await (const event of call(app, more)) events.push(event)
  return events
}

const textOf = ({ content }: RunEvent) => content?.parts.map(({ text }) => text).join('')

test('a run gives its events as clients see them, and makes the session that is missing', async () => {
  const events = await eventsOf('two', { sessionId: 'fresh', runId: 'run_two' })
  expect(events.map(textOf)).toEqual(['first', 'second'])
  for (const event of events) {
    expect(event).toMatchObject({ author: 'TWO', invocationId: 'run_two' })
    expect(Math.abs(event.timestamp - Date.now() / 1_000)).toBeLessThan(3_600)
  }
  // The second run finds the session.
  expect((await eventsOf('two', { sessionId: 'fresh' })).map(textOf)).toEqual(['first', 'second'])
  expect((await eventsOf('echo', { text: 'grüße 👋' })).map(textOf)).toEqual(['heard: grüße 👋'])
})

test('pieces come before the whole text where they are asked for', async () => {
  const pieces = await eventsOf('pieces', { streaming: true })
  expect(pieces.map((event) => [event.partial === true, textOf(event)])).toEqual([
    [true, 'one '],
    [true, 'two '],
    [true, 'three'],
    [false, 'one two three'],
  ])
})

test('state reaches the agent', async () => {
  expect((await eventsOf('state', { stateDelta: { theme: 'dark' } })).map(textOf)).toEqual(['theme is dark'])
})

test('an agent that raises is an agent_error without paths, after what it said', async () => {
  const seen: RunEvent[] = []
  const reading = (async () => {
    for await (const event of call('raises')) seen.push(event)
  })()
  const fault = await reading.then(
    () => seen.at(-1),
    (error: unknown) => error,
  )
  expect(textOf(seen[0]!)).toBe('begun')
  const said = fault instanceof NodeFault ? `${fault.kind} ${fault.message}` : JSON.stringify(fault)
  expect(said).toContain('stopped midway')
  expect(said).not.toContain('/home/secret')
})

test('an agent that says nothing ends without events; its error event is passed on', async () => {
  expect(await eventsOf('says_nothing')).toEqual([])
  expect(await eventsOf('says_error')).toMatchObject([{ errorCode: 'QUOTA', errorMessage: 'no more today' }])
})

test.each(exchangeNames)('the server still says as recorded: %s', async (name) => {
  const asks = (answer: string) => eventsIn(answer).findLast((event) => event.longRunningToolIds?.length)
  const sent = new Map<string, string>()
  for (const { path, body, answer } of readExchanges(name)) {
    // The server makes its own ids, also those that the next message answers to.
    const said = [...sent].reduce((text, [from, to]) => text.replaceAll(from, to), JSON.stringify(body))
    const headers = { 'content-type': 'application/json' }
    const own = await fetch(`${adk.url}${path.replace('ada', name)}`, {
      method: 'POST',
      headers,
      body: said.replace('"ada"', `"${name}"`),
    })
    const text = await own.text()
    expect(own.status).toBe(200)
    if (path !== '/run_sse') continue
    expect(withoutIds(text).trim()).toBe(withoutIds(answer).trim())
    for (const [n, id] of (asks(answer)?.longRunningToolIds ?? []).entries()) {
      sent.set(id, asks(text)!.longRunningToolIds![n]!)
    }
  }
})

test('an app that the node does not have is unavailable, and its probe fails', async () => {
  await expect(eventsOf('nobody')).rejects.toMatchObject({ kind: 'unavailable' })
  await expect(probeNode(nodeOf('nobody'), AbortSignal.timeout(5_000))).rejects.toThrow()
  await expect(probeNode(nodeOf('two'), AbortSignal.timeout(5_000))).resolves.toBeUndefined()
})

test('a canceled run closes the connection, which cancels the agent', async () => {
  const cancel = new AbortController()
  const reading = (async () => {
    for await (const event of call('slow', { sessionId: 'canceled', signal: cancel.signal })) {
      if (textOf(event) === 'begun') cancel.abort(new Error('canceled by the test'))
    }
  })()
  await expect(reading).rejects.toThrow('canceled by the test')
  await eventually('the agent is canceled', () => adk.marks().includes('canceled-canceled'))
})

test('a node that is killed in mid-stream is lost; afterwards it is unavailable, and comes back without its sessions', async () => {
  await eventsOf('two', { sessionId: 'before' })
  const seen: (string | undefined)[] = []
  const reading = (async () => {
    for await (const event of call('slow', { sessionId: 'killed' })) {
      seen.push(textOf(event))
      await adk.kill9()
    }
  })()
  await expect(reading).rejects.toMatchObject({ kind: 'lost' })
  expect(seen).toEqual(['begun'])
  await expect(eventsOf('two', { sessionId: 'before' })).rejects.toMatchObject({ kind: 'unavailable' })
  await adk.start()
  // The client expects the session to be there: the node says otherwise, and gets it again.
  expect((await eventsOf('two', { sessionId: 'before' })).map(textOf)).toEqual(['first', 'second'])
})
