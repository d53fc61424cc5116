/** A message that takes the place of the run at work, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { cancelNotice } from '#services/runs/state/claims.ts'
import { readRun } from '#services/runs/state/read.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { openRunWorld, type RunWorld, reportsOf } from '../support/run-dispatchers.ts'
import { fleet } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

export function describeInterrupts(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode(Object.fromEntries(fleet.map((slug) => [slug, echoScript])))
    node.scripts.set('whale', ({ text }) =>
      text.startsWith('long') ? [{ hang: true }] : [{ text: `did ${text}` }],
    )
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    await world.close()
    await node.close()
    await relational.query(
      `truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
         platform.outbox`,
    )
  })

  const interrupting = async (text: string) => {
    const run = await world.accept(text, { onBusy: 'interrupt' })
    for (const dispatcher of world.dispatchers) dispatcher.heard(cancelNotice)
    return run
  }
  const atWork = (text: string) =>
    eventually(`${text} is at its node`, () =>
      node.runs.some((run) => run.text === text && run.endedAt === null),
    )

  describe(`interrupting on ${name}`, () => {
    test('cancels the run at work, says why, and begins', async () => {
      world.start()
      const first = await world.accept('long 1')
      await atWork('long 1')
      const second = await interrupting('go')
      expect(await world.ended(first.runId)).toMatchObject({
        status: 'canceled',
        error: { code: 'interrupted', retryable: false },
      })
      expect(await world.ended(second.runId)).toMatchObject({ status: 'completed', summary: 'did go' })
      const reports = await reportsOf(relational)
      expect(reports.map(({ run_id }) => run_id).toSorted()).toEqual([first.runId, second.runId].toSorted())
    })

    test('starts at once where nothing is at work', async () => {
      const dispatcher = world.start()
      const run = await world.acceptAtOnce(dispatcher, 'go', { onBusy: 'interrupt' })
      expect(await world.ended(run.runId)).toMatchObject({ status: 'completed', attempt: 1 })
    })

    test('runs that wait stay, and go first', async () => {
      world.start()
      const first = await world.accept('long 1')
      await atWork('long 1')
      const waiting = await world.accept('waits')
      const last = await interrupting('last')
      expect((await world.ended(first.runId)).error?.code).toBe('interrupted')
      expect((await world.ended(waiting.runId)).status).toBe('completed')
      expect((await world.ended(last.runId)).status).toBe('completed')
      const texts = node.runs.filter(({ app }) => app === 'whale').map(({ text }) => text)
      expect(texts).toEqual(['long 1', 'waits', 'last'])
    })

    test('of many at the same time at two instances all are run, and each that was at work was canceled for one', async () => {
      world.start()
      world.start()
      const runs = [await world.accept('long 0')]
      await atWork('long 0')
      for (const round of [1, 2, 3]) {
        runs.push(...(await Promise.all([1, 2].map((n) => interrupting(`long ${round}.${n}`)))))
        await eventually('one is at work', () => node.inFlight === 1)
      }
      const last = await interrupting('done')
      // Those that waited go first; each of them is at work until the next message comes.
      await eventually('the last one ends', async () => {
        if ((await readRun(relational, last.runId))!.endedAt) return true
        await interrupting('done')
        return false
      })
      for (const { runId } of runs)
        expect(await world.ended(runId)).toMatchObject({ status: 'canceled', error: { code: 'interrupted' } })
    })

    test('a message that is refused cancels nothing', async () => {
      world.start()
      const first = await world.accept('long 1')
      await atWork('long 1')
      for (let n = 0; n < 10; n++) await world.accept(`waits ${n}`)
      await expect(interrupting('more')).rejects.toMatchObject({ code: 'session_queue_full' })
      const run = (await readRun(relational, first.runId))!
      expect([run.status, run.cancelRequestedAt]).toEqual(['running', null])
    })

    test('those that joined the run end with it', async () => {
      node.scripts.set('pulse', () => [{ hang: true }])
      node.scripts.set('whale', ({ text }) =>
        text.startsWith('long') ? [{ text: 'Ask @pulse.' }, { hang: true }] : [{ text: 'did it' }],
      )
      world.start()
      const first = await world.accept('long 1')
      await eventually('pulse is at work', () => node.runs.some(({ app }) => app === 'pulse'))
      const second = await interrupting('go')
      const { joined } = await world.ended(first.runId)
      expect((await world.ended(joined[0]!.runId)).status).toBe('canceled')
      expect((await world.ended(second.runId)).status).toBe('completed')
    })
  })
}
