/** Sessions at nodes that are made ahead of their runs, at nodes whose answers the test gives. */

import { expect, it } from 'vitest'
import { createConnections, createNodeSessions } from '#services/runs/nodes/adk/connections.ts'
import type { NodeSession } from '#services/runs/nodes/nodes.ts'
import { eventually } from '#test/support/eventually.ts'
import { nodesAt } from '#test/support/run-nodes.ts'
import { echoScript, openScriptedNode } from '#test/support/scripted-node.ts'

const unaborted = () => new AbortController().signal

async function withNode(work: (given: Awaited<ReturnType<typeof openWhale>>) => Promise<void>) {
  const given = await openWhale()
  try {
    await work(given)
  } finally {
    given.release()
    await given.server.close()
  }
}

/** Answers no request for a session until `release`. */
async function openWhale() {
  const server = await openScriptedNode({ whale: echoScript })
  const held = Promise.withResolvers<void>()
  server.sessionsHeld = held.promise
  const node = nodesAt(server.url, ['whale']).nodes[0]!
  const sessionOf = (sessionId: string): NodeSession => ({ node, userId: 'ada', sessionId })
  return {
    server,
    sessions: createNodeSessions(createConnections()),
    sessionOf,
    release: held.resolve,
    asked: () => server.count('POST /apps/'),
  }
}

it('a run waits for the session that was begun for it, and asks for no other', () =>
  withNode(async ({ sessions, sessionOf, release, asked, server }) => {
    const session = sessionOf('s1')
    sessions.prepare(session)
    sessions.prepare(session)
    const ensured = sessions.ensure(session, unaborted())
    await eventually('the node is asked', () => asked() > 0)
    expect(server.hasSession('whale', 'ada', 's1')).toBe(false)
    release()
    await ensured
    expect(server.hasSession('whale', 'ada', 's1')).toBe(true)
    sessions.prepare(session)
    await sessions.ensure(session, unaborted())
    expect(asked()).toBe(1)
  }))

it('a run that is stopped meanwhile waits no longer', () =>
  withNode(async ({ sessions, sessionOf }) => {
    const stop = new AbortController()
    sessions.prepare(sessionOf('s1'))
    const ensured = sessions.ensure(sessionOf('s1'), stop.signal)
    const reason = new Error('canceled')
    stop.abort(reason)
    await expect(ensured).rejects.toBe(reason)
    await expect(sessions.ensure(sessionOf('s1'), stop.signal)).rejects.toBe(reason)
  }))

it('a session that could not be made ahead is made by its run', () =>
  withNode(async ({ sessions, sessionOf, release, server }) => {
    release()
    await server.down()
    sessions.prepare(sessionOf('s1'))
    await expect(sessions.ensure(sessionOf('s1'), unaborted())).rejects.toMatchObject({ kind: 'unavailable' })
    await server.up()
    await sessions.ensure(sessionOf('s1'), unaborted())
    expect(server.hasSession('whale', 'ada', 's1')).toBe(true)
  }))

it('a node that does not answer keeps a hundred open at most, and runs make theirs all the same', () =>
  withNode(async ({ sessions, sessionOf, release, asked, server }) => {
    for (let n = 0; n < 120; n++) sessions.prepare(sessionOf(`s${n}`))
    await eventually('the node is asked', () => asked() === 100)
    const beyond = sessions.ensure(sessionOf('s119'), unaborted())
    await eventually('the run asks by itself', () => asked() === 101)
    release()
    await beyond
    expect(server.hasSession('whale', 'ada', 's119')).toBe(true)
  }))
