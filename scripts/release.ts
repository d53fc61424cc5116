/**
 * Makes the files of a release: `npm run release -- [--dry-run] [--out FOLDER]`. Checks first, and names every fault with its fix.
 * Publishes nothing: it ends with the commands that would. `--version X` sets the version and the changelog's heading instead.
 */

import { createHash } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { changelogFaults, releaseNotes } from './release/changelog.ts'
import { commitFaults, commitTime } from './release/commit.ts'
import { licenceFaults } from './release/licences.ts'
import { buildAll, releasePackages, textOf } from './release/packages.ts'
import { ofTarball, type Sbom, sbomOf } from './release/sbom.ts'
import { traceFaults } from './release/traces.ts'
import { releaseVersion, setVersion, versionFaults } from './release/versions.ts'
import { projectRoot } from './source-files.ts'

process.umask(0o022)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
try {
  const { values } = parseArgs({
    options: {
      'dry-run': { type: 'boolean', default: false },
      out: { type: 'string', default: join(projectRoot, 'dist/release') },
      version: { type: 'string' },
    },
  })
  if (values.version !== undefined) prepare(values.version)
  else await release(resolve(values.out), values['dry-run'])
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

function prepare(version: string): void {
  const files = setVersion(version, new Date().toISOString().slice(0, 10))
  console.log(
    `The version is ${version} in ${files.join(', ')}. Read the changes, commit them, and make the release.`,
  )
}

async function release(out: string, isDryRun: boolean): Promise<void> {
  const sboms = check(out, isDryRun)
  const draft = draftFolder(isDryRun ? tmpdir() : dirname(out))
  buildAll()
  const tarballs = releasePackages.map((one) => basename(one.pack(draft)))
  const time = commitTime()
  for (const [index, sbom] of sboms.entries()) {
    const tarball = tarballs[index]!
    const whole = ofTarball(sbom, releasePackages[index]!.manifest().name, sha256(join(draft, tarball)), time)
    const file = tarball.replace(/\.tgz$/, '.cdx.json')
    writeFileSync(join(draft, file), `${JSON.stringify(whole, null, 2)}\n`)
  }
  writeFileSync(join(draft, 'RELEASE-NOTES.md'), releaseNotes(textOf('CHANGELOG.md'), releaseVersion()))
  const files = readdirSync(draft).sort()
  const sums = files.map((file) => `${sha256(join(draft, file))}  ${file}\n`)
  writeFileSync(join(draft, 'SHA256SUMS'), sums.join(''))
  files.push('SHA256SUMS')
  stopAt(await traceFaults(draft, files))

  for (const file of files) console.log(`${sizeOf(join(draft, file)).padStart(10)}  ${file}`)
  if (isDryRun) return console.log('A dry run: nothing was kept.')
  if (existsSync(out)) rmSync(out, { recursive: true })
  renameSync(draft, out)
  console.log(`These files are in ${out}. Nothing is published; these commands would:`)
  for (const [index, { publish }] of releasePackages.entries())
    console.log(publish(relative(process.cwd(), join(out, tarballs[index]!)) || out))
}

/** Throws every fault at once; those that a dry run does not mind are printed by it. Returns the bill of each package. */
function check(out: string, isDryRun: boolean): Sbom[] {
  const { sboms, missing } = allSboms()
  const changelog = changelogFaults(textOf('CHANGELOG.md'), releaseVersion())
  const refused = [...commitFaults(), ...changelog.refused]
  const faults = [
    ...versionFaults(),
    ...changelog.faults,
    ...(missing.length > 0 ? missing : licenceFaults(sboms.flatMap(({ components }) => components))),
    ...outFaults(out),
  ]
  if (!isDryRun) faults.unshift(...refused)
  else for (const fault of refused) console.log(`A release would refuse this: ${fault}`)
  stopAt(faults)
  return sboms
}

/** The licences of some packages alone would say little. */
function allSboms(): { sboms: Sbom[]; missing: string[] } {
  const missing: string[] = []
  const sboms = releasePackages.flatMap((one) => {
    try {
      return [sbomOf(one)]
    } catch (error) {
      missing.push(error instanceof Error ? error.message : String(error))
      return []
    }
  })
  return { sboms, missing }
}

/** A dry run looks at the folder, too, and writes nothing into it. */
function outFaults(out: string): string[] {
  if (existsSync(out) && statSync(out).isDirectory() && readdirSync(out).length > 0)
    return [`--out ${out} is not empty: remove it, or name another folder`]
  let folder = out
  while (!existsSync(folder)) folder = dirname(folder)
  return isWritableFolder(folder)
    ? []
    : [`--out ${out} cannot be written below ${folder}: name another folder`]
}

function isWritableFolder(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    return statSync(folder).isDirectory()
  } catch {
    return false
  }
}

function stopAt(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(['No release can be made:', ...faults].join('\n- '))
}

/** The files appear in the folder of the release all at once: they are made next to it. */
function draftFolder(parent: string): string {
  mkdirSync(parent, { recursive: true })
  const draft = mkdtempSync(join(parent, '.release-'))
  chmodSync(draft, 0o755)
  process.on('exit', () => rmSync(draft, { recursive: true, force: true }))
  return draft
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

function sizeOf(file: string): string {
  return `${(statSync(file).size / 1000).toFixed(1)} kB`
}
