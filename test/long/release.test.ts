/** `npm run release`, run in copies of the project that are repositories of their own: what it makes, and what it refuses. */

import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Sbom } from '../../scripts/release/sbom.ts'
import { projectFolder } from '../support/pages.ts'

const folder = mkdtempSync(join(tmpdir(), 'fl-release-'))
const { version } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
  version: string
}
const next = '99.0.0'
/** They differ in path, depth and modes, which may not be seen in the files of a release. */
const first = join(folder, 'clone')
const second = join(folder, 'deeper', 'another clöne')
/** For temporary files of a run, of which none may be left. */
const temporary = join(folder, 'temporary')

beforeAll(() => {
  mkdirSync(temporary)
  copyProject(first, 0o644)
  copyProject(second, 0o600)
})

afterEach(() => {
  git(first, 'reset', '--quiet', '--hard', 'first')
  git(first, 'clean', '--quiet', '-xdf', '-e', 'node_modules')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Its suites are not part of a release, and the modes of files are those of some umask. */
function copyProject(to: string, mode: number): void {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: projectFolder,
    encoding: 'utf8',
  })
  for (const file of listed.trim().split('\n')) {
    if (/^(test|bench)\//.test(file) || !existsSync(join(projectFolder, file))) continue
    cpSync(join(projectFolder, file), join(to, file))
    const isProgram = statSync(join(to, file)).mode & 0o100
    chmodSync(join(to, file), mode | (isProgram ? 0o100 : 0))
  }
  symlinkSync(realpathSync(join(projectFolder, 'node_modules')), join(to, 'node_modules'))
  // The commit of a release has no such section.
  const changelog = readFileSync(join(to, 'CHANGELOG.md'), 'utf8')
  if (!/^## Unreleased$/m.test(changelog))
    writeFileSync(
      join(to, 'CHANGELOG.md'),
      changelog.replace(/^## /m, '## Unreleased\n\n### Added\n- Something.\n\n## '),
    )
  git(to, 'init', '--quiet')
  writeFileSync(join(to, '.git/info/exclude'), 'node_modules\n')
  commit(to, 'first')
  git(to, 'tag', 'first')
}

function git(cwd: string, ...args: string[]): string {
  const who = ['-c', 'user.name=Release', '-c', 'user.email=release@flotilla.example']
  return execFileSync('git', [...who, ...args], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, GIT_COMMITTER_DATE: '2026-11-27T12:00:00Z' },
  })
}

function commit(cwd: string, subject: string): void {
  git(cwd, 'add', '--all')
  git(cwd, 'commit', '--quiet', '--no-verify', '-m', subject)
}

function release(cwd: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/release.ts', ...args], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, TMPDIR: temporary },
  })
  expect(readdirSync(temporary)).toEqual([])
  return { status, stdout, stderr }
}

function change(file: string, edit: (text: string) => string): void {
  const path = join(first, file)
  mkdirSync(dirname(path), { recursive: true })
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const edited = edit(text)
  expect(edited, `${file} is changed`).not.toBe(text)
  writeFileSync(path, edited)
}

const replace = (file: string, from: string | RegExp, to: string) =>
  change(file, (text) => text.replace(from, to))

/** A package that npm would install with the platform. */
function dependOn(name: string, locked: object | null): void {
  replace('package.json', '"dependencies": {', `"dependencies": {\n    "${name}": "1.0.0",`)
  if (locked === null) return
  change('package-lock.json', (text) => {
    const lock = JSON.parse(text)
    lock.packages[`node_modules/${name}`] = { version: '1.0.0', ...locked }
    return JSON.stringify(lock, null, 2)
  })
}

/** The faults that a run ends with: sentences, no stack. */
function faultsOf(...args: string[]): string {
  const { status, stderr } = release(first, ...args)
  expect(status, stderr).toBe(1)
  expect(stderr).not.toContain('    at ')
  return stderr
}

test('a dry run makes everything, says what a release would refuse, and leaves nothing', () => {
  replace('README.md', '#', '# Changed:')
  const before = git(first, 'status', '--porcelain')
  const { status, stdout, stderr } = release(first, '--dry-run')
  expect(status, stderr).toBe(0)
  expect(stdout).toContain('A release would refuse this: no commit holds README.md')
  expect(stdout).toContain(` kB  flotilla-client-${version}.tgz\n`)
  expect(stdout).toContain(' kB  SHA256SUMS\n')
  expect(git(first, 'status', '--porcelain')).toBe(before)
  expect(existsSync(join(first, 'dist'))).toBe(false)
})

test('two clones of a commit make the same bytes, with checksums, notes and bills of materials', () => {
  const made = [first, second].map((clone) => {
    const { status, stderr } = release(clone, '--version', next)
    expect(status, stderr).toBe(0)
    commit(clone, 'The next version')
    const result = release(clone, '--out', join(clone, 'dist/made'))
    expect(result.status, result.stderr).toBe(0)
    expect(result.stdout).toContain(`\nnpm publish --access public dist/made/flotilla-stidx-${next}.tgz\n`)
    expect(statSync(join(clone, 'dist/made')).mode & 0o777).toBe(0o755)
    return join(clone, 'dist/made')
  })
  const files = readdirSync(made[0]!)
  expect(files.sort()).toEqual([
    'RELEASE-NOTES.md',
    'SHA256SUMS',
    ...['flotilla', 'flotilla-client', 'flotilla-stidx'].flatMap((name) => [
      `${name}-${next}.cdx.json`,
      `${name}-${next}.tgz`,
    ]),
  ])
  for (const file of files) {
    const [one, other] = made.map((from) => readFileSync(join(from, file)))
    expect(one!.equals(other!), file).toBe(true)
  }
  const checked = execFileSync('sha256sum', ['-c', '--strict', 'SHA256SUMS'], {
    cwd: made[0]!,
    encoding: 'utf8',
  })
  expect(checked.trim().split('\n').sort()).toEqual(
    files.filter((file) => file !== 'SHA256SUMS').map((file) => `${file}: OK`),
  )
  expect(readFileSync(join(made[0]!, 'RELEASE-NOTES.md'), 'utf8')).toMatch(
    /^# Flotilla 99\.0\.0 \(\d{4}-\d\d-\d\d\)\n\n### [A-Z]\w+\n- /,
  )
  expect(release(first, '--out', 'dist/made').stderr).toContain('dist/made is not empty')
  billOfPlatform(made[0]!)
})

/** Packages that npm installs with the tarball on Node 24, or that are inside; no development parts, no optional peers. */
function billOfPlatform(made: string): void {
  const sbom = JSON.parse(readFileSync(join(made, `flotilla-${next}.cdx.json`), 'utf8')) as Sbom
  const manifest = JSON.parse(readFileSync(join(first, 'package.json'), 'utf8'))
  const names = sbom.components.map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.dependencies)))
  expect(names).toEqual(expect.arrayContaining(['@zvec/zvec', 'react', 'uplot']))
  const left = ['typescript', 'vite', 'vitest', 'rolldown', ...Object.keys(manifest.peerDependencies)]
  expect(names.filter((name) => left.includes(name) || /^node-(bin-)?(linux|darwin|win)/.test(name))).toEqual(
    [],
  )
  expect(sbom.components.filter(({ licenses }) => !licenses?.length)).toEqual([])
  const sum = readFileSync(join(made, 'SHA256SUMS'), 'utf8').match(/^(\w+) {2}flotilla-99\.0\.0\.tgz$/m)?.[1]
  expect(sbom.metadata).toMatchObject({
    timestamp: '2026-11-27T12:00:00.000Z',
    component: { name: 'flotilla', version: next, hashes: [{ alg: 'SHA-256', content: sum }] },
  })
  const inside = JSON.parse(readFileSync(join(made, `flotilla-stidx-${next}.cdx.json`), 'utf8')) as Sbom
  expect(inside.metadata.component.name).toBe('@flotilla/stidx')
  expect(inside.components.map(({ name }) => name)).toContain('cli-progress')
}

test('each version that differs is a fault, and all faults are said at once', () => {
  replace('deploy/charts/flotilla/Chart.yaml', `appVersion: ${version}`, 'appVersion: 98.0.0')
  replace('packages/stidx/package.json', `"version": "${version}"`, '"version": "97.0.0"')
  replace('packages/client/package.json', `"^${version}"`, `"~${version}"`)
  replace(
    'package-lock.json',
    /(?<="packages\/client": \{\s+"name": "@flotilla\/client",\s+"version": ")[^"]+/,
    '96.0.0',
  )
  const faults = faultsOf('--dry-run')
  for (const fault of [
    `Chart.yaml: the appVersion is 98.0.0, the version of package.json ${version}: make it ${version}`,
    'packages/stidx/package.json: the version is 97.0.0',
    `packages/client/package.json: the range of its peer @flotilla/stidx must be ^${version}`,
    'package-lock.json: the version of a workspace is 96.0.0',
  ])
    expect(faults).toContain(fault)
})

test.for([
  ['no section', /^## .*$/gm, '', 'CHANGELOG.md has no section: add "## Unreleased"'],
  [
    'a section of another version',
    'Unreleased',
    '95.0.0 (2026-11-27)',
    `make it "## ${version} (YYYY-MM-DD)"`,
  ],
  ['no date', 'Unreleased', version, `make it "## ${version} (YYYY-MM-DD)"`],
  [
    'a day that does not exist',
    'Unreleased',
    `${version} (2026-02-30)`,
    `make it "## ${version} (YYYY-MM-DD)"`,
  ],
  ['no entry', '## Unreleased', '## Unreleased\n\n## 0.0.9', 'has no entry below "## Unreleased"'],
] as const)('a changelog with %s is refused', ([, from, to, fault]) => {
  replace('CHANGELOG.md', from, to)
  expect(faultsOf('--dry-run')).toContain(fault)
})

test('changes without a commit, and a changelog without a version, are refused by all but a dry run', () => {
  writeFileSync(join(first, 'docs/notes.log'), 'of a try')
  replace('LICENSE', 'Apache', 'Another')
  const faults = faultsOf('--out', 'dist/refused')
  expect(faults).toContain('no commit holds LICENSE: commit or stash the changes')
  expect(faults).toContain('git ignores docs/notes.log, which would be packed: move it away')
  expect(faults).toContain('CHANGELOG.md begins with "## Unreleased": `npm run release -- --version X`')
  expect(existsSync(join(first, 'dist/refused'))).toBe(false)
})

test('a dependency needs a licence that is allowed, and a place in the lock file', () => {
  dependOn('of-somebody', { license: 'SSPL-1.0' })
  dependOn('of-nobody', {})
  const faults = faultsOf('--dry-run')
  expect(faults).toContain('of-somebody@1.0.0 has the licence SSPL-1.0, which is not allowed by')
  expect(faults).toContain('of-nobody@1.0.0 names no licence: read its text')
  dependOn('not-locked', null)
  replace('deploy/charts/flotilla/Chart.yaml', `appVersion: ${version}`, 'appVersion: 98.0.0')
  const more = faultsOf('--dry-run')
  expect(more).toContain('package-lock.json does not hold all that flotilla needs')
  expect(more).toContain('the appVersion is 98.0.0')
})

test('the code inside a build needs an allowed licence, too', () => {
  change('package-lock.json', (text) => {
    const lock = JSON.parse(text)
    lock.packages['node_modules/uplot'].license = 'GPL-3.0-only'
    return JSON.stringify(lock, null, 2)
  })
  expect(faultsOf('--dry-run')).toMatch(/uplot@\S+ has the licence GPL-3\.0-only/)
})

test('a folder that cannot be written is refused before anything is made', () => {
  const faults = faultsOf('--dry-run', '--out', join(first, 'LICENSE/release'))
  expect(faults).toMatch(/LICENSE\/release cannot be written below .*LICENSE: name another folder/)
  expect(faults).not.toContain('building')
  expect(faultsOf('--dry-run', '--out', 'LICENSE')).toContain('name another folder')
})

test('a path of this machine in a tarball is refused, and nothing is left', () => {
  change('docs/backup.md', (text) => `${text}\nTry it in ${realpathSync(first)}.\n`)
  replace('CHANGELOG.md', 'Unreleased', `${version} (2026-11-27)`)
  commit(first, 'A path')
  const faults = faultsOf('--out', 'dist/refused')
  expect(faults).toContain(`flotilla-${version}.tgz: package/docs/backup.md holds "${realpathSync(first)}"`)
  expect(readdirSync(join(first, 'dist'))).toEqual([])
})

test.for([
  ['2', '--version is "2": three numbers with dots are expected'],
  ['0.1.0', 'CHANGELOG.md has a section for 0.1.0: take a later version'],
])('the version %s is refused, and no file is changed', ([version, fault]) => {
  expect(faultsOf('--version', version!)).toContain(fault)
  expect(git(first, 'status', '--porcelain')).toBe('')
})
