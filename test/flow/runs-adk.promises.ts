/** Callers of the run gateway with agents of the real Google ADK behind it, whatever engines are below. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import type { Client, RunEvent } from '#client/client.ts'
import { startRunOperation } from '#operations/runs.ts'
import { type FollowedItem, followRunOperation } from '#operations/runs-follow.ts'
import { type AdkServer, adkAgents, askingAgents, openAdkServer } from '../../scripts/servers/adk.ts'
import { eventually } from '../support/eventually.ts'
import type { GatewayPlatform } from '../support/gateway-platform.ts'
import { describeQuestionsOfAdk } from './runs-adk-questions.promises.ts'

type Open = (env: Record<string, string>) => Promise<GatewayPlatform>

export function describeRunsOnAdk(engines: string, open: Open): void {
  describe(`agents of Google ADK behind the run gateway, on ${engines} engines`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'fl-'))
    let adk: AdkServer
    let platform: GatewayPlatform
    let client: Client

    beforeAll(async () => {
      adk = await openAdkServer()
      const nodes: Record<string, object> = {
        ...Object.fromEntries([...adkAgents, ...askingAgents].map((app) => [app, { url: adk.url }])),
        // One for a short limit, and the orchestrator.
        hasty: { url: adk.url, app: 'slow', timeout_ms: 1_000 },
        axon: { url: adk.url, app: 'concludes' },
      }
      const file = join(folder, 'nodes.yaml')
      writeFileSync(file, stringify({ nodes }))
      platform = await open({ RUN_NODES_FILE: file })
      const { agent_gateway_url: runUrl, hub_url: hubUrl } = platform.addresses
      client = await platform.clientOf('scout', { runUrl, hubUrl })
    })
    afterAll(async () => {
      await client?.close()
      await platform?.close()
      await adk?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    const said = ({ author, content }: Pick<RunEvent, 'author' | 'content'>) =>
      `${author}: ${content?.parts.map(({ text }) => text).join('')}`

    test('a run answers with the events of its agent; the session is made at the node', async () => {
      const { run, events } = await client.runs.run('two', 'hello', { sessionId: 'fresh' })
      expect(events.map(said)).toEqual(['TWO: first', 'TWO: second'])
      expect(run).toMatchObject({ appName: 'TWO', userId: 'scout', sessionId: 'fresh', status: 'completed' })
      expect(events.every(({ invocationId }) => invocationId === run.runId)).toBe(true)
      const path = `${adk.url}/apps/two/users/scout/sessions/fresh`
      expect(((await (await fetch(path)).json()) as { events: unknown[] }).events).toHaveLength(3)
    })

    test('a stream has the pieces of a text, and goes on from any event afterwards', async () => {
      const stream = await client.runs.stream('pieces', 'hello')
      const events: [boolean, string][] = []
      for await (const event of stream) events.push([event.partial === true, said(event)])
      expect(events.at(-1)).toEqual([false, 'PIECES: one two three'])
      expect(events.filter(([partial]) => partial)).toEqual(
        ['one ', 'two ', 'three'].map((piece) => [true, `PIECES: ${piece}`]),
      )
      const again = await client.runs.resume(stream.runId)
      const kept: string[] = []
      for await (const event of again) kept.push(said(event))
      expect([kept, again.result?.status]).toEqual([['PIECES: one two three'], 'completed'])
    })

    test('an agent that is named joins, and its events join the stream', async () => {
      const { run, events } = await client.runs.run('caller', 'what now?')
      expect(events.map(({ author }) => author)).toEqual(['CALLER', 'OTHER'])
      expect(said(events[1]!)).toBe('OTHER: joined, asked')
      expect(run.joined).toMatchObject([{ agent: 'OTHER' }])
      const direct = await client.runs.run('echo', 'ask @other, too', { join: false })
      expect(direct.events.map(({ author }) => author)).toEqual(['ECHO'])
    })

    test('an agent that raises fails its run, with what it had said, and without its paths', async () => {
      const stream = await client.runs.stream('raises', 'hello')
      const events: string[] = []
      for await (const event of stream) if (event.content) events.push(said(event))
      expect(events).toEqual(['RAISES: begun'])
      expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'agent_error' } })
      expect(stream.result?.error?.message).toContain('stopped midway')
      expect(stream.result?.error?.message).not.toContain('/home/secret')
      await expect(client.runs.run('raises_at_once', 'hello')).rejects.toMatchObject({
        code: 'agent_error',
        status: 502,
      })
    })

    test('a slow agent meets the limit of its node, and holds up no other session', async () => {
      const slow = client.runs.run('hasty', 'hello')
      slow.catch(() => {})
      expect((await client.runs.run('two', 'hello')).run.status).toBe('completed')
      await expect(slow).rejects.toMatchObject({ code: 'run_timeout', status: 504 })
    })

    test('a canceled run ends at the node, too', async () => {
      const stream = await client.runs.stream('slow', 'hello', { sessionId: 'canceled' })
      for await (const event of stream) {
        expect(said(event)).toBe('SLOW: begun')
        await client.runs.cancel(stream.runId)
      }
      expect(stream.result?.status).toBe('canceled')
      await eventually('the agent is canceled', () => adk.marks().includes('canceled-canceled'))
    })

    test('a dispatch asks every agent, and has a conclusion', async () => {
      const { goalId, runs } = await client.runs.dispatch('report')
      const others = runs.filter(({ agent }) => agent !== 'SLOW' && agent !== 'HASTY')
      const slow = runs.find(({ agent }) => agent === 'SLOW')!
      await eventually(
        'the slow one has begun',
        async () => (await client.runs.get(slow.runId)).lastEventId > 0,
      )
      await client.runs.cancel(slow.runId)
      const stream = await client.runs.dispatches.stream(goalId)
      const authors = new Set<string>()
      for await (const { author } of stream) authors.add(author)
      expect(stream.result?.status).toBe('partial')
      expect(stream.result?.result).toBe('all is said')
      expect(others.length).toBe(adkAgents.length + askingAgents.length - 1)
      expect([...authors]).toEqual(expect.arrayContaining(['TWO', 'ECHO', 'CALLER', 'AXON']))
      expect((await client.goals.get(goalId)).status).toBe('completed')
    })

    describeQuestionsOfAdk(() => ({ adk, client, platform: platform.platform }))

    test('an operator starts a run and follows it, pieces of its text among them', async () => {
      const items: FollowedItem[] = []
      const context = {
        platform: platform.platform,
        output: { item: (item: FollowedItem) => void items.push(item), progress() {} },
        signal: new AbortController().signal,
        actor: { kind: 'command_line', id: 'tester' },
      } as const
      const start = { agent: 'PIECES', text: 'hello', streaming: true }
      const { runId } = await startRunOperation.run(
        { ...context, output: { item() {}, progress() {} } },
        start,
      )
      const followed = await followRunOperation.run(context, { id: runId, keep: true })
      expect(followed).toMatchObject({ run: { runId, status: 'completed', userId: 'operator' } })
      expect(followed.events.map(({ event }) => said(event))).toEqual(['PIECES: one two three'])
      // Pieces from before it looked are left out.
      expect(items.at(-1)).toMatchObject({ kind: 'event' })
      expect(items.filter(({ kind }) => kind === 'event')).toHaveLength(1)
    })

    test('a node that is killed in mid-stream is lost; the next run finds it again', async () => {
      const stream = await client.runs.stream('slow', 'hello', { sessionId: 'killed' })
      for await (const event of stream) {
        if (event.content) await adk.kill9()
      }
      expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'node_lost' } })
      const waiting = client.runs.run('two', 'hello', { sessionId: 'fresh' })
      await adk.start()
      // The session was made before the node was started again, and is lost.
      expect((await waiting).events.map(said)).toEqual(['TWO: first', 'TWO: second'])
    })
  })
}
