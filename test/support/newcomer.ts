/** A copy of the project in a folder of its own, with a shell in it: for following its pages as a newcomer does. */

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { sourceFiles } from '../../scripts/source-files.ts'
import { blocksOf, codeBlocks, projectFolder } from './pages.ts'
import { openShell, type Shell } from './shell.ts'

export interface Newcomer extends Shell {
  folder: string
}

/** `env` is added to the few variables that a shell has anyway. Packages are those of this clone. */
export function openNewcomer(env: Record<string, string>): Newcomer {
  const folder = mkdtempSync(join(tmpdir(), 'fl-newcomer-'))
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: projectFolder })
  // npm puts some into a workspace's own folder. In a worktree both are links, which git does not ignore.
  const packages = ['node_modules', 'console/node_modules']
  for (const file of listed.toString().split('\n').filter(Boolean)) {
    if (!packages.includes(file)) cpSync(join(projectFolder, file), join(folder, file))
  }
  for (const modules of packages) symlinkSync(join(projectFolder, modules), join(folder, modules))
  // Builds of the same sources by `npm test`: `npm start` would build them, too, which takes a while.
  for (const made of ['packages/stidx/dist', 'packages/client/dist', 'console/dist', '.cache/built']) {
    const from = join(projectFolder, made)
    if (existsSync(from)) cpSync(from, join(folder, made), { recursive: true })
  }
  git(folder, 'init', '--quiet')
  git(folder, 'add', '.')
  const shell = openShell(folder, env)
  return {
    folder,
    ...shell,
    async close() {
      await shell.close()
      rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
    },
  }
}

/** Does what the README says up to here: scout and its two points, words with agents, a note. The platform must run. */
export async function followReadme(newcomer: Newcomer): Promise<void> {
  const readme = codeBlocks('README.md')
  const [first] = blocksOf(readme, 'Your first agent', 'js')
  writeFileSync(join(newcomer.folder, 'playground/first.mjs'), first!)
  const [python] = blocksOf(readme, 'Your first agent', 'py')
  writeFileSync(join(newcomer.folder, 'playground/first.py'), python!)
  const sections = ['Your first agent', 'Talk to agents', 'Notes and goals']
  await newcomer.run(sections.flatMap((heading) => blocksOf(readme, heading, 'sh')).join('\n'))
}

/** Runs blocks of a page one after the other in one shell; resolves with the output of each. */
export async function runBlocks(newcomer: Newcomer, blocks: string[]): Promise<string[]> {
  expect(blocks.length).toBeGreaterThan(0)
  const printed = await newcomer.run(blocks.map((code, n) => `printf '\\n--- ${n}\\n'\n${code}`).join('\n'))
  return printed.split(/^--- \d+$/m).slice(1)
}

/**
 * No file of the project was changed, and the new files are ignored by git, by which `npm run words` goes, by the
 * compiler, by Biome, and by the other checks: so `npm run check` gives the same result without them.
 */
export async function expectTidy(newcomer: Newcomer): Promise<void> {
  const changed =
    'git status --short --untracked-files=all | sed "/^A  /d; / \\(console.\\)\\?node_modules$/d"'
  expect(await newcomer.run(changed)).toBe('')
  const made = (file: string) => /[/](playground|[.]flotilla)[/]/.test(file)
  const compiled = await newcomer.run('npx tsc -p tsconfig.json --listFilesOnly')
  expect(compiled.split('\n').filter(made)).toEqual([])
  expect(sourceFiles(newcomer.folder).filter(made)).toEqual([])
  const linted = 'npx biome check --no-errors-on-unmatched playground .flotilla'
  expect(await newcomer.run(linted)).toMatch(/^Checked 0 files/m)
}

function git(folder: string, ...args: string[]): void {
  execFileSync('git', args, { cwd: folder })
}
