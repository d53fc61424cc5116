/** Promises about the parts of messages: they reach the node as they were sent, and whom it names, on any relational engine. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational, SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { readConversation } from '#services/runs/dispatch/node-message.ts'
import type { Part } from '#services/runs/state/types.ts'
import { silentLog } from '../support/relational.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

const bytes = (size: number) => randomBytes(size).toString('base64')

export function describePartsOfRuns(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode({ whale: echoScript, pulse: echoScript, axon: echoScript })
    world = openRunWorld(relational, node)
    world.start()
    onTestFinished(async () => {
      await world.close()
      await node.close()
      await relational.query(
        'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.outbox',
      )
    })
  })

  const given = (slug: string) =>
    node.runs.filter(({ app }) => app === slug).map(({ body }) => body.newMessage as { parts: Part[] })

  describe(`parts of messages on ${name}`, () => {
    const kinds: [string, Part[]][] = [
      ['text', [{ text: 'one ü 語 🐋' }, { text: '' }]],
      ['bytes', [{ inlineData: { mimeType: 'image/png', data: bytes(1024 * 1024), displayName: 'a.png' } }]],
      ['bytes in snake_case', [{ inline_data: { mime_type: 'a/b', data: bytes(999) }, text: null as never }]],
      ['a file', [{ fileData: { fileUri: 'gs://reports/relay.pdf', mimeType: 'application/pdf' } }]],
      ['a response', [{ functionResponse: { id: 'f-1', name: 'ask', response: { z: 1, a: ['ä', null] } } }]],
    ]
    test.each(kinds)('%s reach the node as they were sent', async (_, parts) => {
      const message = { role: 'user', parts }
      const { runId } = await world.accept('', { message })
      expect((await world.ended(runId)).status).toBe('completed')
      expect(JSON.stringify(given('whale')[0])).toBe(JSON.stringify(message))
    })

    test('what an agent repeats comes back as it was', async () => {
      const parts = [
        { text: 'see' },
        { inlineData: { mimeType: 'image/png', data: bytes(300 * 1024) } },
        { fileData: { fileUri: 'gs://a/b' } },
        { functionResponse: { id: '1', name: 'ask', response: { deep: [{ a: null }] } } },
      ]
      node.scripts.set('whale', ({ body }) => [{ event: { content: body.newMessage } }])
      const { runId } = await world.accept('', { message: { role: 'user', parts } })
      await world.ended(runId)
      const { rows } = await relational.query<{ event: string }>(
        'select event from platform.run_events where run_id = $1',
        [runId],
      )
      expect(JSON.stringify(JSON.parse(rows[0]!.event).content.parts)).toBe(JSON.stringify(parts))
    })

    test('who is named in the text gets bytes and files, and no response, which is for one agent alone', async () => {
      node.scripts.set('whale', () => [{ text: 'I look.' }])
      const inlineData = { mimeType: 'image/png', data: bytes(10_000) }
      const parts = [
        { text: 'Look at this, @pulse.' },
        { inlineData },
        { file_data: { file_uri: 'gs://PULSE/WHALE' } },
        { functionResponse: { name: 'AXON', response: { text: '@axon' } } },
      ]
      const { runId } = await world.accept('', { message: { role: 'user', parts } })
      expect((await world.ended(runId)).joined.map(({ agent }) => agent)).toEqual(['PULSE'])
      await world.talk(runId)
      expect(given('whale')[0]!.parts).toEqual(parts)
      expect(given('pulse')[0]!.parts).toEqual([
        { text: expect.stringContaining('user: Look at this, @pulse.') },
        { inlineData },
        { file_data: { file_uri: 'gs://PULSE/WHALE' } },
      ])
    })

    test('who is named gets them also where no node takes the run itself', async () => {
      await world.close()
      world.start({ times: { startMs: 600 } })
      const inlineData = { mimeType: 'image/png', data: bytes(10_000) }
      const parts = [{ text: 'Is @pulse there?' }, { inlineData }]
      const { runId } = await world.accept('', { slug: 'nobody', message: { role: 'user', parts } })
      await world.talk(runId)
      expect(given('pulse')[0]!.parts).toEqual([
        { text: expect.stringContaining('Is @pulse there?') },
        { inlineData },
      ])
    })

    test('an agent that names another hands on what it shows', async () => {
      const inlineData = { mimeType: 'image/png', data: bytes(1_000) }
      const functionCall = { name: 'x', args: {} }
      node.scripts.set('whale', () => [
        {
          event: {
            content: { role: 'model', parts: [{ text: 'PULSE?' }, { inlineData }, { functionCall }] },
          },
        },
      ])
      const { runId } = await world.accept('draw')
      await world.talk(runId)
      expect(given('pulse')[0]!.parts.slice(1)).toEqual([{ inlineData }])
    })

    test('who is named later reads the texts of before, and loads no bytes with them', async () => {
      node.scripts.set('whale', () => [{ text: 'I look.' }])
      const parts = [{ text: 'the first' }, { inlineData: { mimeType: 'a/b', data: bytes(1024 * 1024) } }]
      await world.ended((await world.accept('', { message: { role: 'user', parts } })).runId)
      const { runId } = await world.accept('and @pulse')
      await world.talk(runId)
      const [context, ...more] = given('pulse')[0]!.parts
      expect(context!.text).toContain('user: the first\n\nWHALE: I look.')
      expect(more).toEqual([])
      let loaded = 0
      const counting: SqlExecutor = {
        ...relational,
        async query<Row>(text: string, params?: SqlValue[]) {
          const result = await relational.query<Row>(text, params)
          loaded += JSON.stringify(result.rows).length
          return result
        },
      }
      const said = await readConversation(counting, { runId, userId: 'ada', sessionId: 's1' }, 20)
      expect(said[0]).toEqual({ author: 'user', text: 'the first' })
      expect(loaded).toBeLessThan(5_000)
    })
  })
}
