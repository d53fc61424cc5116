/** `flotilla demo` on an empty platform: it fills all of it, once, and `--clean` leaves nothing. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readFleet } from '../../cli/commands/demo-fleet.ts'
import type { DemoResult } from '../../cli/commands/demo-steps.ts'
import { runCommand, runJson } from '../support/command-line.ts'
import { eventually } from '../support/eventually.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { temporaryFolder } from '../support/temporary.ts'

const home = mkdtempSync(join(tmpdir(), 'fl-'))
const env = { FLOTILLA_HOME: home }
const file = join(home, 'targets.yaml')
const fleet = readFleet()
let end = async () => {}

beforeAll(async () => {
  const atEnd = (kill: () => Promise<void>) => {
    end = kill
  }
  await startFlotilla(home, { atEnd })
}, 180_000)
afterAll(async () => {
  await end()
  rmSync(home, { recursive: true, force: true })
})

const read = <T>(...args: string[]) => runJson<T>(args, env)

async function everything() {
  const { agents } = await read<{ agents: { agent_id: string }[] }>('agents', 'list')
  const { notes } = await read<{ notes: { author: string }[] }>('notes', 'list')
  const { goals } = await read<{ goals: { status: string }[] }>('goals', 'list')
  const { runs } = await read<{ runs: { trigger: string; status: string }[] }>('runs', 'list', '--all')
  const { targets } = await read<{ targets: { target: string; state: string; lag: number }[] }>(
    'webhooks',
    'targets',
  )
  const letters = await read<{ dead_letters: { reason: string }[] }>('webhooks', 'dead-letters', 'list')
  const { collections } = await read<{ collections: { collection: string; points: number }[] }>('stats')
  const points = collections.filter(({ collection }) => collection !== 'fleet_notes')
  return {
    agents: agents.map(({ agent_id }) => agent_id),
    notes,
    goals,
    runs,
    targets,
    letters: letters.dead_letters,
    points: points.map(({ points }) => points),
  }
}

it('needs a running platform', async () => {
  const { code, printed } = await runCommand(['demo'], { FLOTILLA_HOME: temporaryFolder() })
  expect([code, printed]).toEqual([1, expect.stringContaining('npx flotilla start')])
})

it('fills an empty platform once, and leaves nothing behind --clean', async () => {
  expect(await read('demo', '--clean')).toEqual({ removed: null })
  const before = await everything()
  const demo = await read<DemoResult>('demo')
  expect(demo).toMatchObject({ already: false, documents: fleet.documents.length, left_out: [] })
  expect(demo.webhooks.dead_letters).toBe(3)
  expect(demo.webhooks.deliveries).toBe(11)

  const filled = await everything()
  for (const { agent_id } of fleet.agents) expect(filled.agents).toContain(agent_id)
  expect(new Set(filled.goals.map(({ status }) => status)).size).toBe(5)
  const triggers = new Set(filled.runs.map(({ trigger }) => trigger))
  for (const trigger of ['api', 'mention', 'dispatch', 'synthesis']) expect(triggers).toContain(trigger)
  expect(filled.runs.filter(({ status }) => status === 'failed')).toEqual([])
  expect(filled.targets).toMatchObject([
    { target: 'old-accounting', state: 'idle', lag: 0 },
    { target: 'shop-office', state: 'idle', lag: 0 },
  ])
  expect(filled.letters.map(({ reason }) => reason)).toEqual(['http_410', 'http_410', 'http_410'])
  for (const [n, points] of filled.points.entries()) expect(points).toBeGreaterThan(before.points[n]!)
  const { thread } = await read<{ thread: { author: string }[] }>('notes', 'show', String(demo.notes[0]))
  expect(new Set(thread.map(({ author }) => author))).toEqual(new Set(['nightwatch', 'orders', 'operator']))

  expect(await read('demo')).toMatchObject({ already: true, notes: [] })
  expect((await everything()).notes).toHaveLength(filled.notes.length)

  expect(await read('demo', '--clean')).toMatchObject({
    removed: { agents: fleet.agents.map(({ agent_id }) => agent_id), targets: 2, kept_file: null },
  })
  const after = await everything()
  // What the reference agents wrote themselves is theirs.
  expect({ ...after, notes: [] }).toEqual({ ...before, notes: [] })
  expect(after.notes.filter(({ author }) => demo.agents.includes(author) || author === 'operator')).toEqual(
    [],
  )
  expect(await read('demo', '--clean')).toEqual({ removed: null })
}, 300_000)

it('leaves alone what others have: agents, notes, and the targets file', async () => {
  const own = 'targets:\n  mine:\n    url: http://127.0.0.1:9/hook\n'
  writeFileSync(file, own)
  await read('agents', 'provision', 'stock', '--role', 'mine')
  expect(await runJson(['demo'], env, 1)).toMatchObject({
    error: { code: 'conflict', message: expect.stringMatching(/agents: stock.*--force/) },
  })
  // An agent of the demo's own names is not taken over, and nothing is half made.
  expect(await runJson(['demo', '--force'], env, 1)).toMatchObject({ error: { code: 'conflict' } })
  expect((await everything()).agents).not.toContain('orders')
  await read('agents', 'delete', 'stock')
  rmSync(join(home, 'agents', 'stock'), { recursive: true })
  await read('notes', 'add', 'Mine', '--body', 'It stays.')
  expect(await runJson(['demo'], env, 1)).toMatchObject({ error: { code: 'conflict' } })

  const demo = await read<DemoResult>('demo', '--force')
  expect(demo.left_out).toEqual([expect.stringContaining('targets file')])
  await eventually('its runs have ended', async () => {
    const { runs } = await everything()
    return runs.every(({ status }) => status === 'completed')
  })
  expect(await read('demo', '--clean')).toMatchObject({ removed: { targets: 0, kept_file: null } })
  expect(readFileSync(file, 'utf8')).toBe(own)
  const { notes } = await read<{ notes: { subject: string }[] }>('notes', 'list', '--author', 'operator')
  expect(notes.map(({ subject }) => subject)).toEqual(['Mine'])
}, 300_000)
