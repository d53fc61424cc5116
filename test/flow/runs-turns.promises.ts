/** Promises to a caller whose node others keep busy, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { runTimes } from '#services/runs/dispatch/parts.ts'
import type { NewRun } from '#services/runs/state/accept.ts'
import { giveBackRun } from '#services/runs/state/claims.ts'
import type { Run } from '#services/runs/state/types.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { nodesAt } from '../support/run-nodes.ts'
import { claim } from '../support/run-rows.ts'
import { openScriptedNode, type Script, type ScriptedNode } from '../support/scripted-node.ts'

export function describeTurnsOfRuns(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld
  /** Runs end when the test says so, by their texts. */
  let gates: Map<string, PromiseWithResolvers<void>>

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    gates = new Map()
    node = await openScriptedNode({ whale: gated, pulse: gated })
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    for (const gate of gates.values()) gate.resolve()
    await world.close()
    await node.close()
    await relational.query(
      `truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
         platform.run_turns, platform.outbox`,
    )
  })

  const gated: Script = async function* ({ text }) {
    await gateOf(text).promise
    yield { text: `${text} is done` }
  }
  function gateOf(text: string): PromiseWithResolvers<void> {
    const gate = gates.get(text) ?? Promise.withResolvers<void>()
    gates.set(text, gate)
    return gate
  }
  const begun = () => node.runs.map(({ text }) => text)
  const by = (caller: string, text: string, given: Partial<NewRun> = {}): Promise<Run> =>
    world.accept(text, { callerUid: caller, userId: caller, sessionId: text, ...given })
  async function crowd(count: number, given: Partial<NewRun> = {}): Promise<void> {
    for (let n = 0; n < count; n++) await by('crowd', `crowd ${n}`, given)
  }
  const places = (concurrency: number) => nodesAt(node.url, ['whale', 'pulse'], { concurrency })
  const busy = (count: number) => eventually('the node is busy', () => node.inFlight === count)

  describe(`callers of a busy node on ${name}`, () => {
    test('the next place is for the one who holds none, however many runs another has queued', async () => {
      for (const holder of ['one', 'another']) world.start({ holder, nodes: places(4) })
      await crowd(62)
      await busy(4)
      const single = await by('single', 'single')
      gateOf(begun()[0]!).resolve()
      await eventually('a fifth run begins', () => node.runs.length > 4)
      expect(begun()[4]).toBe('single')
      gateOf('single').resolve()
      expect((await world.ended(single.runId)).status).toBe('completed')
      // Nobody else waits: the crowd has all places again.
      await busy(4)
      expect(begun()[5]).toMatch(/^crowd/)
    })

    test('a run waits for a place for as long as others hold them, and is not ended for it', async () => {
      const held = await by('crowd', 'crowd 0')
      const [claimed] = await claim(relational, { concurrency: 1, holder: 'elsewhere', leaseMs: 600_000 })
      expect(claimed!.runId).toBe(held.runId)
      await crowd(3)
      let sweeps = 0
      world.databaseFault = (statement) => {
        if (statement.includes('note_turns')) sweeps++
        return undefined
      }
      for (const holder of ['one', 'another']) {
        world.start({ holder, nodes: places(1), times: { startMs: 1, sweepMs: 20 } })
      }
      const { runId } = await by('single', 'single')
      const before = sweeps
      await eventually('sweeps have looked', () => sweeps > before + 10)
      expect((await world.all()).map(({ status }) => status)).toEqual(['running', ...Array(4).fill('queued')])
      await world.close()

      world.start({ nodes: places(1) })
      const given = { runId: held.runId, epoch: claimed!.epoch, why: 'stopped', waitMs: 0 } as const
      await giveBackRun(relational, { ...given, startMs: runTimes.startMs })
      for (const text of ['crowd 0', 'single']) gateOf(text).resolve()
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
      expect(begun().slice(0, 2)).toEqual(['crowd 0', 'single'])
    })

    test('its own limit ends a run that waits', async () => {
      world.start({ nodes: places(1) })
      await crowd(1)
      await busy(1)
      const { runId } = await by('single', 'single')
      await relational.query('update platform.runs set deadline = clock_timestamp() where run_id = $1', [
        runId,
      ])
      expect((await world.ended(runId)).error?.code).toBe('run_timeout')
    })

    test('a node that goes away meanwhile counts for all who wait for it', async () => {
      world.start({ nodes: places(1), times: { startMs: 600 } })
      await crowd(2)
      await busy(1)
      await node.down()
      const { runId } = await by('single', 'single')
      expect((await world.ended(runId)).error?.code).toBe('node_unavailable')
    })

    test('a dispatcher that has taken on as much as it may divides its places among the nodes', async () => {
      world.start({ nodes: places(4), times: { runsMax: 2, sweepMs: 600_000 } })
      await crowd(6)
      await busy(2)
      const { runId } = await by('single', 'single', { slug: 'pulse' })
      gateOf('single').resolve()
      // The other node may be the first, but not for both places.
      for (const text of begun().slice(0, 2)) gateOf(text).resolve()
      expect((await world.ended(runId)).status).toBe('completed')
      expect(begun().slice(0, 4)).toContain('single')
    })
  })
}
