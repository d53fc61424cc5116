/** A TypeScript client that a generator makes of the API descriptions contains every operation, and its types fit every answer. */

import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '#runtime/http/api/document.ts'
import { installOpenapiTools } from '../../scripts/servers/install.ts'
import {
  callsWithAnEnd,
  type DescribedFiles,
  openDescribedFiles,
  run,
  timeoutMs,
} from '../support/api-clients/described-files.ts'
import { programOf } from '../support/api-clients/typescript.ts'
import type { DescribedInterface } from '../support/described-calls.ts'

const project = fileURLToPath(new URL('../../', import.meta.url))

let world: DescribedFiles
beforeAll(async () => {
  world = await openDescribedFiles()
}, timeoutMs)
afterAll(() => world?.close())

test('a client of openapi-typescript contains every operation, compiles, and its types fit every answer', async () => {
  const { folder } = world
  const tools = await installOpenapiTools()
  const types = new Map<string, string>()
  const generate = async ({ name, document }: DescribedInterface) => {
    const cli = join(tools, 'node_modules', 'openapi-typescript', 'bin', 'cli.js')
    const made = join(folder, `${name}.d.ts`)
    // Without the option every field that has a default would have to be sent.
    const options = ['--default-non-nullable=false', '-o', made]
    await run(process.execPath, [cli, join(folder, `${name}.json`), ...options], {
      cwd: tools,
      timeout: timeoutMs,
    })
    const text = readFileSync(made, 'utf8')
    for (const [path, , { operationId }] of operationsOf(document)) {
      expect(text).toContain(`"${path}": {`)
      expect(text).toContain(`operations["${operationId}"]`)
    }
    types.set(name, `./${name}.d.ts`)
  }
  await Promise.all(world.interfaces.map(generate))
  symlinkSync(join(tools, 'node_modules'), join(folder, 'node_modules'))
  const calls = await callsWithAnEnd(world)
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'calls.ts'), programOf(calls, types))
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['calls.ts'] }))
  const compiler = join(project, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [compiler, '-p', folder], { timeout: timeoutMs }).catch(
    ({ stdout }: { stdout: string }) => expect.fail(stdout.slice(0, 4_000)),
  )
  const { stdout } = await run(process.execPath, [join(folder, 'calls.ts')], { timeout: timeoutMs })
  const answers = JSON.parse(stdout) as { status: number; data?: object; error?: Fault }[]
  expect(
    answers.map(({ status, data, error }, n) => [
      calls[n]!.operationId,
      status,
      data !== undefined,
      error?.code ?? error?.error?.code,
    ]),
  ).toEqual(calls.map(({ operationId, status, code }) => [operationId, status, code === undefined, code]))
})

interface Fault {
  code?: string
  /** In OpenAI's form. */
  error?: { code: string }
}

const compilerOptions = {
  target: 'es2024',
  lib: ['es2024', 'dom'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  strict: true,
  noEmit: true,
  skipLibCheck: false,
  types: [],
}
