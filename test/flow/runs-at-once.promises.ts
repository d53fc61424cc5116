/** Promises about runs that are claimed with their acceptance, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import type { Dispatcher } from '#services/runs/dispatch/dispatcher.ts'
import { newRunId } from '#services/runs/state/accept.ts'
import { readRun } from '#services/runs/state/read.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { type DispatcherGiven, openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { nodesAt } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

export function describeRunsAtOnce(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode({ whale: echoScript })
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    await world.close()
    await node.close()
    await relational.query(
      'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.outbox',
    )
  })

  /** One that can claim with an acceptance: its node has a row. */
  async function ready(given: DispatcherGiven = {}): Promise<Dispatcher> {
    const dispatcher = world.start({ nodes: nodesAt(node.url, ['whale']), ...given })
    await eventually('the node has its row', async () => {
      const { rows } = await relational.query('select from platform.run_nodes')
      return rows.length > 0
    })
    return dispatcher
  }
  const sessionCalls = () => node.count('POST /apps/')
  const acceptFails = (when: 'before' | 'after') => {
    world.databaseFault = (text) => (text.includes('accept_run') ? when : undefined)
  }

  describe(`runs that are claimed with their acceptance, on ${name}`, () => {
    test('the session is made once, also where it is asked for before and after', async () => {
      const dispatcher = await ready()
      for (const text of ['one', 'two']) {
        const { runId } = await world.acceptAtOnce(dispatcher, text)
        expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
      }
      expect(node.requests.filter((request) => request.startsWith('POST'))).toEqual([
        'POST /apps/whale/users/ada/sessions/s1',
        'POST /run_sse',
        'POST /run_sse',
      ])
    })

    test('one that is not accepted calls no agent: an empty session is all that it leaves', async () => {
      const dispatcher = await ready()
      acceptFails('before')
      await expect(world.acceptAtOnce(dispatcher, 'never')).rejects.toMatchObject({
        code: 'relational_engine_unavailable',
      })
      await eventually('the session is there', () => node.hasSession('whale', 'ada', 's1'))
      world.databaseFault = () => undefined
      const { runId } = await world.acceptAtOnce(dispatcher, 'now')
      expect((await world.ended(runId)).status).toBe('completed')
      expect(node.runs.map(({ text }) => text)).toEqual(['now'])
      expect(sessionCalls()).toBe(1)
    })

    test('one whose acceptance is not known is called once, when its lease is over', async () => {
      // Long enough for the second attempt on a busy machine.
      const dispatcher = await ready({ times: { leaseMs: 3_000, renewMs: 500 } })
      acceptFails('after')
      const runId = newRunId()
      await expect(world.acceptAtOnce(dispatcher, 'maybe', { runId })).rejects.toMatchObject({
        code: 'relational_engine_unavailable',
      })
      expect(await readRun(relational, runId)).toMatchObject({ status: 'running', attempt: 1 })
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2 })
      expect(node.runs).toHaveLength(1)
    })

    test('a node that is away meanwhile gets it when it is back', async () => {
      const dispatcher = await ready()
      await node.down()
      const { runId } = await world.acceptAtOnce(dispatcher, 'go')
      await eventually('it waits', async () => (await readRun(relational, runId))?.status === 'queued')
      await node.up()
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
    })

    test('an owner that loses its lease while the session is being made calls nothing any more', async () => {
      // The next owner may be this one again: on a slow machine, too, it then has the time for a run.
      const dispatcher = await ready({ times: { leaseMs: 5_000, renewMs: 600_000 } })
      const held = Promise.withResolvers<void>()
      node.sessionsHeld = held.promise
      const { runId } = await world.acceptAtOnce(dispatcher, 'go')
      await ready()
      await eventually('another one has it', async () => (await readRun(relational, runId))?.attempt === 2)
      held.resolve()
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2 })
      expect(await world.talk(runId)).toEqual(['WHALE: whale heard: go'])
      expect(node.runs).toHaveLength(1)
    })
  })
}
