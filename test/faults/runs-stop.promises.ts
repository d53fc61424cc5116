/**
 * The run-dispatcher as a process of its own, on Kafka and Postgres, when it is stopped: it claims nothing more and
 * finishes running runs; those left after DRAIN_S end or wait for the next dispatcher.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import type { AwayStack } from '../support/away-stack.ts'
import { eventually } from '../support/eventually.ts'
import { spawnFlotilla } from '../support/flotilla-process.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

/** Only ends a hang. */
const patienceMs = 90_000

export function describeStoppedDispatcher(stack: AwayStack): void {
  describe('a run-dispatcher that is stopped', () => {
    const home = mkdtempSync(join(tmpdir(), 'fl-'))

    let platform: Platform
    let env: Record<string, string>
    let node: ScriptedNode
    let world: RunWorld

    beforeAll(async () => {
      env = { ...(await stack.newEnvironment()).env, FLOTILLA_HOME: home, OPS_PORT: '0' }
      const log = pino({ level: 'silent' })
      const migrations = migrationFolders
      platform = await openPlatform({ env, needs: [], migrations, producerName: 'test', log, lock: false })
      node = await openScriptedNode({ whale: echoScript, pulse: echoScript })
      const file = join(home, 'runs.yaml')
      const entry = (slug: string) =>
        `  ${slug}:\n    codename: ${slug.toUpperCase()}\n    role: test\n    url: ${node.url}\n    concurrency: 4\n`
      writeFileSync(file, `nodes:\n${entry('whale')}${entry('pulse')}`)
      env.RUN_NODES_FILE = file
      world = openRunWorld(platform.engines.relational, node)
    })
    afterAll(async () => {
      await node?.close()
      await platform?.close()
      rmSync(home, { recursive: true, force: true })
    })

    beforeEach(async () => {
      // A second try must not meet the runs of the first.
      await platform.engines.relational.query(
        'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.outbox',
      )
      node.runs.length = 0
    })

    async function start(further: Record<string, string> = {}) {
      const started = spawnFlotilla(['start', 'run-dispatcher'], { ...env, ...further })
      await eventually('it is ready', () => started.stdout().includes('ready'), patienceMs)
      return started
    }

    test('running runs are finished, however long a stop of others may take', async () => {
      node.scripts.set('whale', () => [{ text: 'one' }, { waitMs: 13_000 }, { text: 'two' }])
      const dispatcher = await start()
      const running = await world.accept('go')
      await eventually('it runs', async () => (await world.talkSoFar(running.runId)) === 1, patienceMs)
      dispatcher.child.kill('SIGTERM')
      await eventually(
        'it stops',
        () => /stopping/.test(dispatcher.stdout() + dispatcher.stderr()),
        patienceMs,
      )
      const late = await world.accept('go', { slug: 'pulse' })
      expect((await dispatcher.finished).code).toBe(0)
      expect((await world.ended(running.runId)).status).toBe('completed')
      expect(await world.talk(running.runId)).toEqual(['WHALE: one', 'WHALE: two'])
      // Nobody took it any more; the next one does.
      expect(node.runs.some(({ app }) => app === 'pulse')).toBe(false)
      const next = await start()
      expect((await world.ended(late.runId)).status).toBe('completed')
      next.child.kill('SIGTERM')
      expect((await next.finished).code).toBe(0)
    })

    test('after DRAIN_S the rest ends, or waits when it had shown nothing', async () => {
      node.scripts.set('whale', () => [{ text: 'one' }, { hang: true }])
      let calls = 0
      node.scripts.set('pulse', () => (calls++ === 0 ? [{ hang: true }] : [{ text: 'again' }]))
      const dispatcher = await start({ DRAIN_S: '1' })
      const shown = await world.accept('go', { sessionId: 's2' })
      const silent = await world.accept('go', { slug: 'pulse', sessionId: 's2' })
      const bothRun = async () => (await world.talkSoFar(shown.runId)) === 1 && calls === 1
      await eventually('both run', bothRun, patienceMs)
      dispatcher.child.kill('SIGTERM')
      expect((await dispatcher.finished).code).toBe(0)
      expect((await world.ended(shown.runId)).error?.code).toBe('node_lost')
      await start()
      expect(await world.ended(silent.runId)).toMatchObject({ status: 'completed', attempt: 1 })
    })
  })
}
