/** Messages to an agent whose node cannot be reached: whom they name answers all the same. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { runTimes } from '#services/runs/dispatch/parts.ts'
import { nodeSetOf } from '#services/runs/nodes/nodes.ts'
import { openControlPlane } from '../support/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { nodesAt } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

let relational: Relational
let node: ScriptedNode
let world: RunWorld

beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational?.close())
beforeEach(async () => {
  node = await openScriptedNode({
    axon: echoScript,
    pulse: ({ sessionId }) => [{ text: `here, in ${sessionId}` }],
  })
  world = openRunWorld(relational, node)
})
afterEach(async () => {
  await world.close()
  await node.close()
})

test.each([
  ['a node that refuses connections', 'cipher'],
  ['no node of this name', 'nowhere'],
])('%s', async (_, slug) => {
  const nodes = nodeSetOf([
    ...nodesAt('http://127.0.0.1:1', ['cipher']).nodes,
    ...nodesAt(node.url, ['pulse', 'axon']).nodes,
  ])
  for (const holder of ['one', 'another']) world.start({ holder, nodes })
  const { runId } = await world.accept('I need you and @pulse', { slug, sessionId: slug })
  await waitedTooLong(runId)
  const { status, error, joined, skipped } = await world.ended(runId)
  expect({ status, code: error?.code }).toEqual({ status: 'failed', code: 'node_unavailable' })
  expect(joined.map(({ agent }) => agent)).toEqual(['PULSE'])
  expect(skipped).toEqual([])
  expect(await world.talk(runId)).toEqual([`PULSE: here, in ${slug}`])
})

/** Lets this run alone have waited for as long as a run may: with a short time others would, too, on a busy machine. */
async function waitedTooLong(runId: string): Promise<void> {
  await eventually('it waits', async () => {
    const { rowCount } = await relational.query(
      `update platform.runs set head_at = clock_timestamp() - make_interval(secs => $2::float8 / 1000)
       where run_id = $1 and status = 'queued' and head_at is not null`,
      [runId, runTimes.startMs],
    )
    return rowCount === 1
  })
}
