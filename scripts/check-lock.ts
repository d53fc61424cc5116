/**
 * Says whether package-lock.json names every platform's native packages; `npm ci` refuses a lock file without them. npm
 * leaves out those that the registry at hand does not carry: `--fix` adds them by name and version.
 */

import { readFileSync, writeFileSync } from 'node:fs'

interface Locked {
  version?: string
  optional?: boolean
  dev?: boolean
  os?: string[]
  cpu?: string[]
  libc?: string[]
  optionalDependencies?: Record<string, string>
}

const file = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Locked> }

const missing = Object.values(lock.packages).flatMap((owner) =>
  Object.entries(owner.optionalDependencies ?? {})
    .filter(([name]) => !(`node_modules/${name}` in lock.packages))
    .map(([name, version]) => ({ name, version, dev: owner.dev === true })),
)

if (process.argv.includes('--fix')) {
  for (const { name, version, dev } of missing) {
    lock.packages[`node_modules/${name}`] = entryOf(name, version, dev)
  }
  const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1))
  writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`)
} else if (missing.length > 0) {
  const names = missing.map(({ name }) => name).join(', ')
  console.error(`package-lock.json lacks ${names}: run \`node scripts/check-lock.ts --fix\` and commit.`)
  process.exitCode = 1
}

/** Native packages tell their platform by their name: `…-<os>-<cpu>[-musl]`. */
function entryOf(name: string, version: string, dev: boolean): Locked {
  const platform = /-(android|darwin|linux|win32)-(arm64|x64)(-musl)?$/.exec(name)
  if (!platform || !/^\d+\.\d+\.\d+$/.test(version)) {
    throw new Error(`${name}@${version} is no native package with an exact version: add it by hand`)
  }
  return {
    version,
    cpu: [platform[2]!],
    ...(dev ? { dev: true } : {}),
    ...(platform[3] ? { libc: ['musl'] } : {}),
    optional: true,
    os: [platform[1]!],
  }
}
