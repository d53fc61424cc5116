/**
 * Says whether package-lock.json names every platform's native packages, which `npm ci` demands, each with the checksum
 * that its download is checked against. npm leaves out those that the registry at hand does not carry: `--fix` adds them
 * by name and version, and asks the registry for every checksum that is missing. Those that it cannot tell are in
 * lock-exceptions.json, which can only shrink.
 */

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { type Locked, type LockedPackages, lockFaults, missingPackages, withoutIntegrity } from './lock.ts'

const file = new URL('../package-lock.json', import.meta.url)
const exceptionsFile = new URL('lock-exceptions.json', import.meta.url)
const lookupMs = 30_000

const lock = JSON.parse(readFileSync(file, 'utf8')) as { packages: LockedPackages }

if (process.argv.includes('--fix')) {
  for (const { name, version, dev } of missingPackages(lock.packages)) {
    lock.packages[`node_modules/${name}`] = entryOf(name, version, dev)
  }
  for (const { path, id } of withoutIntegrity(lock.packages)) {
    const integrity = integrityOf(id)
    if (integrity) lock.packages[path] = { ...lock.packages[path], integrity }
  }
  const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1))
  writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`)
}
const faults = lockFaults(lock.packages, JSON.parse(readFileSync(exceptionsFile, 'utf8')) as string[])
if (faults.length > 0) {
  console.error(
    `package-lock.json: ${faults.join('; ')}. Run \`node scripts/check-lock.ts --fix\` and commit.`,
  )
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

/** Null when the registry does not know the package or does not answer. */
function integrityOf(id: string): string | null {
  try {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore']
    const said = execFileSync('npm', ['view', id, 'dist.integrity'], {
      encoding: 'utf8',
      stdio,
      timeout: lookupMs,
    })
    return /^sha512-[A-Za-z0-9+/]+={0,2}$/.exec(said.trim())?.[0] ?? null
  } catch {
    return null
  }
}
