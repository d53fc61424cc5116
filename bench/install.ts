/** The package: its size, what npm installs with it, and the time from nothing to the end of the tour. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installPackage, librariesOf, makePackage, withNode } from '../test/support/package.ts'
import { type Bench, type BenchRow, median } from './bench.ts'
import {
  createHome,
  diskBytes,
  installedIn,
  type StartedPlatform,
  startPlatform,
} from './started-platform.ts'

const mb = 1e6
const starts = 3
const shownPackages = 8

export const installBench: Bench = {
  name: 'install',
  purpose:
    'the package in an empty folder on Node 24, fetched by npm (from its cache, where it has been before), and its start compared with that of the clone',
  async run(report) {
    const folder = mkdtempSync(join(tmpdir(), 'fl-install-'))
    try {
      const tarball = makePackage(folder)
      const sizes = measureSizes(folder, tarball, report)
      const more = largest(folder)
      return { rows: [...sizes, ...(await measureStarts(join(folder, 'embedded'), report))], more }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

function measureSizes(folder: string, tarball: string, report: (text: string) => void): BenchRow[] {
  const env = withNode(process.execPath, join(folder, 'cache'))
  const embedded = join(folder, 'embedded')
  const begun = performance.now()
  installPackage(tarball, embedded, env)
  const seconds = (performance.now() - begun) / 1_000
  report(`  installed in ${seconds.toFixed(1)} s`)
  const distributed = join(folder, 'distributed')
  installPackage(tarball, distributed, env, librariesOf(join(embedded, 'node_modules/flotilla')))
  return [
    { what: 'tarball', unit: 'MB', measured: statSync(tarball).size / mb, bar: { max: 15 } },
    { what: 'installed', unit: 'MB', measured: diskBytes(embedded) / mb, bar: { max: 200 } },
    {
      what: 'the same with the libraries for Kafka, a registry and Firebase',
      unit: 'MB',
      measured: diskBytes(distributed) / mb,
    },
    { what: 'npm install', unit: 's', measured: seconds },
  ]
}

async function measureStarts(folder: string, report: (text: string) => void): Promise<BenchRow[]> {
  const [clone, installed]: [number[], number[]] = [[], []]
  let tourSeconds = 0
  for (let n = 0; n < starts; n++) {
    clone.push((await startOnce()).readyMs)
    const { readyMs, tour } = await startOnce(folder, n === 0)
    installed.push(readyMs)
    if (tour !== undefined) tourSeconds = readyMs / 1_000 + tour
    report(
      `  start ${n + 1} of ${starts}: clone ${clone.at(-1)?.toFixed()} ms, package ${readyMs.toFixed()} ms`,
    )
  }
  return [
    {
      what: 'ready on an empty data directory, by `npx flotilla start`',
      unit: 'ms',
      measured: median(installed),
      peer: { what: 'clone, `npm start`', value: median(clone) },
      bar: { max: 1.5 },
    },
    { what: 'from the start to the end of the tour', unit: 's', measured: tourSeconds },
  ]
}

async function startOnce(folder?: string, withTour = false): Promise<{ readyMs: number; tour?: number }> {
  const home = createHome()
  let platform: StartedPlatform | undefined
  try {
    platform = await startPlatform(home, folder === undefined ? undefined : installedIn(folder))
    const { readyMs } = platform
    if (!withTour || folder === undefined) return { readyMs }
    const begun = performance.now()
    const env = { ...process.env, FLOTILLA_HOME: home.path }
    execFileSync('npx', ['flotilla', 'tour'], { cwd: folder, env, stdio: ['ignore', 'ignore', 2] })
    return { readyMs, tour: (performance.now() - begun) / 1_000 }
  } finally {
    await platform?.stop()
    home.remove()
  }
}

function largest(folder: string): string {
  const modules = join(folder, 'embedded/node_modules')
  const listed = execFileSync('sh', ['-c', 'du -sk * | sort -rn'], { cwd: modules, encoding: 'utf8' })
  const names = listed.trim().split('\n').slice(0, shownPackages)
  const shown = names.map((line) => {
    const [kilobytes, name] = line.split('\t')
    return `${name} ${Math.round((Number(kilobytes) * 1024) / mb)} MB`
  })
  return `The largest folders below node_modules: ${shown.join(', ')}.`
}
