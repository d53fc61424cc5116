/** The examples of docs/testing-agents.md, run and compiled in a project of somebody else's. */

import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it, vi } from 'vitest'
import { codeBlocks, projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

vi.setConfig({ testTimeout: 240_000 })
const examples = join(projectFolder, 'docs/examples')
const files = ['agent.vitest.test.ts', 'agent.node.test.ts']

/** A folder with the packages that the page has one install, and both examples. */
function openProject(): string {
  const folder = temporaryFolder()
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@flotilla'), { recursive: true })
  symlinkSync(projectFolder, join(modules, 'flotilla'))
  symlinkSync(join(projectFolder, 'packages/client'), join(modules, '@flotilla/client'))
  for (const name of ['vitest', 'vite', 'typescript', '@types']) {
    symlinkSync(join(projectFolder, 'node_modules', name), join(modules, name))
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  for (const file of files) copyFileSync(join(examples, file), join(folder, file))
  return folder
}

/** Runs a program of the project with no variables of this one; resolves with what it printed, rejects when it fails. */
async function run(folder: string, ...args: string[]): Promise<string> {
  const { PATH = '', HOME = '' } = process.env
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary, { recursive: true })
  const env = { PATH, HOME, TMPDIR: temporary }
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env })
  return stdout
}

it('the page shows them as they are', () => {
  const shown = codeBlocks('docs/testing-agents.md').filter(({ language }) => language === 'ts')
  expect(shown.map(({ code }) => code)).toEqual(
    files.map((file) => readFileSync(join(examples, file), 'utf8').replace(/^\/\*\*.*\*\/\n\n/, '')),
  )
})

it('the commands of the page run them, and nothing is left', async () => {
  const [vitest, node] = codeBlocks('docs/testing-agents.md')
    .filter(({ language }) => language === 'sh')
    .map(({ code }) => code.trim())
  expect([vitest, node]).toEqual(['npx vitest run agent.vitest.test.ts', 'node --test agent.node.test.ts'])
  const folder = openProject()
  expect(await run(folder, 'node_modules/vitest/vitest.mjs', 'run', files[0]!)).toMatch(/3 passed/)
  expect(await run(folder, '--test', files[1]!)).toMatch(/pass 1\b/)
  expect(readdirSync(join(folder, 'tmp')).filter((name) => name.startsWith('flotilla-'))).toEqual([])
})

it('they are typed, and so is the library by one file', async () => {
  const folder = openProject()
  const tsc = 'node_modules/typescript/bin/tsc'
  const common = [
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
    '--strict',
    '--skipLibCheck',
  ]
  await run(folder, tsc, ...common, '--allowImportingTsExtensions', '--noEmit', ...files)
  const made = ['--rewriteRelativeImportExtensions', '--declaration', '--outDir', 'made']
  await run(folder, tsc, ...common, ...made, 'node_modules/flotilla/cli/library.ts')
  const types = readFileSync(join(folder, 'made/library.d.ts'), 'utf8')
  expect(types).toContain(
    'export declare function startPlatform(options?: PlatformOptions): Promise<Platform>;',
  )
  expect(types).not.toMatch(/^(import|export .* from)\b/m)
})
