/** The examples of docs/testing-agents.md, run and compiled in a project of somebody else's. */

import { execFile } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { installPackage, makePackage, withNode } from '../support/package.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'

vi.setConfig({ testTimeout: 240_000 })
const examples = join(projectFolder, 'docs/examples')
const files = ['agent.vitest.test.ts', 'agent.node.test.ts']

let folder: string
/** A project of somebody else's, with the packages that the page has one install; those that are big are links. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fl-library-'))
  installPackage(makePackage(folder), folder, withNode(process.execPath, join(folder, 'cache')))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@flotilla'))
  symlinkSync(join(projectFolder, 'packages/client'), join(modules, '@flotilla/client'))
  for (const name of ['vitest', 'vite', 'typescript', '@types']) {
    if (!existsSync(join(modules, name)))
      symlinkSync(join(projectFolder, 'node_modules', name), join(modules, name))
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  for (const file of files) copyFileSync(join(examples, file), join(folder, file))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a program of the project with no variables of this one; resolves with what it printed, rejects when it fails. */
async function run(...args: string[]): Promise<string> {
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
  const [install, vitest, node] = codeBlocks('docs/testing-agents.md')
    .filter(({ language }) => language === 'sh')
    .map(({ code }) => code.trim())
  expect(install).toMatch(/^npm install --save-dev (\.\/flotilla(-client)?-\d\.\d\.\d\.tgz ?){2}$/)
  expect([vitest, node]).toEqual(['npx vitest run agent.vitest.test.ts', 'node --test agent.node.test.ts'])
  expect(await run('node_modules/vitest/vitest.mjs', 'run', files[0]!)).toMatch(/3 passed/)
  expect(await run('--test', files[1]!)).toMatch(/pass 1\b/)
  expect(readdirSync(join(folder, 'tmp')).filter((name) => name.startsWith('flotilla-'))).toEqual([])
})

it('they are typed, and so is the library by one file', async () => {
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
  await run(tsc, ...common, '--allowImportingTsExtensions', '--noEmit', ...files)
  const types = readFileSync(join(folder, 'node_modules/flotilla/cli/library.d.ts'), 'utf8')
  expect(types).toContain(
    'export declare function startPlatform(options?: PlatformOptions): Promise<Platform>;',
  )
  expect(types).not.toMatch(/^(import|export .* from)\b/m)
})
