/** `flotilla tour --kill`: it loses nothing that was acknowledged, and its platform ends with it. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { dataDirectoryOwner } from '#lib/data-directory.ts'
import { isAlive } from '#runtime/start/addresses.ts'
import { anyPorts } from '../support/any-ports.ts'
import { eventually } from '../support/eventually.ts'
import { runFlotilla, spawnFlotilla } from '../support/flotilla-process.ts'

function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  return home
}

test('a platform that is killed in the midst of accepted work has all of it when it is back', async () => {
  const home = newHome()
  const env = { ...anyPorts, FLOTILLA_HOME: home }
  const { code, stdout, stderr } = await runFlotilla(['tour', '--kill', '--json'], env)
  expect(`${code} ${stderr}`).toBe('0 ')
  const { kill } = JSON.parse(stdout)
  expect(kill.accepted).toMatchObject({ points: 800, runs: 3, notes: 1 })
  expect(kill).toMatchObject({ points_before: 0, points_after: 800 })
  const ended = Object.entries<number>(kill.runs)
  expect(ended.reduce((sum, [, count]) => sum + count, 0)).toBe(3)
  for (const [status] of ended) expect(['completed', 'failed (node_lost)']).toContain(status)
  expect(dataDirectoryOwner(home)).toBeNull()
}, 400_000)

test.each(['SIGINT', 'SIGKILL'] as const)(
  'its platform ends when the tour ends by %s',
  async (signal) => {
    const home = newHome()
    const tour = spawnFlotilla(['tour', '--kill'], { ...anyPorts, FLOTILLA_HOME: home })
    await eventually('it runs', () => tour.stdout().includes('A platform of its own runs'), 150_000)
    const { pid } = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8'))
    tour.child.kill(signal)
    await tour.finished
    await eventually('the platform ends', () => !isAlive(pid), 30_000)
  },
  400_000,
)
