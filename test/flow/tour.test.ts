/** `flotilla tour` as a newcomer takes it: what it makes stays, a second one doubles nothing, and `--clean` removes all. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TourResult } from '../../cli/commands/tour-parts.ts'
import { runCommand, runJson } from '../support/command-line.ts'
import { eventually } from '../support/eventually.ts'
import { spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'

interface Kept {
  points: number
  runs: number
  notes: number
  goals: number
  agents: string[]
}

/** What there is of the tour; points are those of two collections. */
async function keptIn(env: Record<string, string>): Promise<Kept> {
  const read = <T>(...args: string[]) => runJson<T>(args, env)
  const { collections } = await read<{ collections: { collection: string; points: number }[] }>('stats')
  const { runs } = await read<{ runs: { userId: string }[] }>('runs', 'list', '--all')
  const { notes } = await read<{ notes: object[] }>('notes', 'list', '--author', 'tour')
  const { goals } = await read<{ goals: object[] }>('goals', 'list')
  const { agents } = await read<{ agents: { agent_id: string }[] }>('agents', 'list')
  return {
    points: collections
      .filter(({ collection }) => ['knowledgebase', 'almemsha'].includes(collection))
      .reduce((sum, { points }) => sum + points, 0),
    runs: runs.length,
    notes: notes.length,
    goals: goals.length,
    agents: agents.map(({ agent_id }) => agent_id),
  }
}

describe('flotilla tour', () => {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const env = { FLOTILLA_HOME: home }
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

  it('keeps what it made, doubles nothing, and removes it with --clean', async () => {
    expect(await runJson(['tour', '--clean'], env)).toEqual({ removed: null })
    const before = await keptIn(env)
    expect(before).toMatchObject({ points: 0, runs: 0, goals: 0 })

    const shown = await runCommand(['tour'], env)
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain('The tour is done: every step worked.')
    expect(shown.stdout).toMatch(/docs\/operations\.md#the-first-admin/)
    expect(shown.stdout).toMatch(/\/console\/search\?text=Where/)
    const kept = await keptIn(env)
    expect(kept.points).toBeGreaterThan(200)
    expect(kept).toMatchObject({ notes: 2, goals: 2, agents: [...before.agents, 'tour'].sort() })

    const tour = await runJson<TourResult>(['tour'], env)
    expect(tour.documents).toBe(kept.points)
    expect(tour.searches.map(({ hits }) => hits[0]!.path.split('#')[0])).toEqual([
      'docs/operations.md',
      'docs/embeddings.md',
      'docs/webhook-courier.md',
      'docs/runs.md',
    ])
    // The first two work side by side.
    const said = tour.said.map(({ agent }) => agent)
    expect([said.slice(0, 2).sort(), said.slice(2)]).toEqual([['ATLAS', 'PULSE'], ['AXON']])
    expect(tour.audit_notes.length).toBeGreaterThanOrEqual(3)
    // Reports about the last runs may be on their way.
    await eventually('the same as before', async () => {
      expect(await keptIn(env)).toEqual(kept)
      return true
    })

    const [question] = tour.notes
    expect(await runJson(['tour', '--clean'], env)).toMatchObject({
      removed: { points: kept.points, notes: 2, goals: 2, dispatches: 1 },
    })
    expect(await keptIn(env)).toEqual(before)
    expect(await runJson(['notes', 'show', String(question)], env, 1)).toMatchObject({
      error: { code: 'not_found' },
    })
    await eventually('no point of its notes is left', async () => {
      const file = join(home, 'notes.jsonl')
      expect((await runCommand(['export', 'fleet_notes', '--output', file, '--force'], env)).code).toBe(0)
      const notes = readFileSync(file, 'utf8')
      expect(notes).toContain('"audit-')
      expect(notes).not.toContain(`"note-${question}"`)
      return true
    })
    expect(await runJson(['tour', '--clean'], env)).toEqual({ removed: null })
  }, 300_000)

  it('says what to do when it was interrupted, and goes on from there', async () => {
    const interrupted = spawnFlotilla(['tour'], env)
    await eventually('it has begun', async () => {
      if (interrupted.child.exitCode !== null) throw new Error((await interrupted.finished).stderr)
      return interrupted.stdout().includes('prove who it is')
    })
    interrupted.child.kill('SIGINT')
    expect(await interrupted.finished).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^shutting_down: The tour was interrupted.*tour --clean/),
    })
    expect(await runJson(['tour', '--clean'], env)).toMatchObject({ removed: { notes: 0 } })
    expect((await keptIn(env)).points).toBe(0)
  }, 300_000)

  it('leaves an agent of the same id alone', async () => {
    await runJson(['agents', 'provision', 'tour', '--role', 'guide'], env)
    for (const args of [['tour'], ['tour', '--clean']]) {
      expect(await runJson(args, env, 1)).toMatchObject({ error: { code: 'conflict' } })
    }
    await runJson(['agents', 'delete', 'tour'], env)
  }, 120_000)

  it('kills no platform that it has not started', async () => {
    const { code, printed } = await runCommand(['tour', '--kill'], env)
    expect(code).toBe(1)
    expect(printed).toMatch(/A platform runs on .* \(process \d+\).*Ctrl-C/s)
    expect((await runCommand(['tour', '--kill', '--clean'], env)).code).toBe(2)
  })
})
