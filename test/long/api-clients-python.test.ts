/** A Python client that a generator makes of the API descriptions contains every operation and reads every answer. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '#runtime/http/api/document.ts'
import { installOpenapiPythonClient } from '../../scripts/servers/tools.ts'
import {
  callsWithAnEnd,
  type DescribedFiles,
  openDescribedFiles,
  piped,
  run,
  timeoutMs,
} from '../support/api-clients/described-files.ts'
import type { DescribedInterface } from '../support/described-calls.ts'

const project = fileURLToPath(new URL('../../', import.meta.url))

let world: DescribedFiles
beforeAll(async () => {
  world = await openDescribedFiles()
}, timeoutMs)
afterAll(() => world?.close())

test('a client of openapi-python-client contains every operation and reads every answer whole', async () => {
  const { folder } = world
  const generator = await installOpenapiPythonClient()
  const env = {
    ...process.env,
    PYTHONPATH: `${generator}:${folder}`,
    PATH: `${join(generator, 'bin')}:${process.env.PATH}`,
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const generate = async ({ name, document }: DescribedInterface) => {
    const target = join(folder, packageOf(name))
    const { stdout } = await run(
      'python3',
      [
        '-c',
        'from openapi_python_client.cli import app; app()',
        'generate',
        '--path',
        join(folder, `${name}.json`),
        '--meta=none',
        '--fail-on-warning',
        `--output-path=${target}`,
      ],
      { env, timeout: timeoutMs },
    ).catch(({ stdout, stderr }: { stdout: string; stderr: string }) => expect.fail(stdout + stderr))
    expect(stdout).not.toMatch(/warning/i)
    for (const [, , { operationId, tags }] of operationsOf(document)) {
      const file = operationId.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      expect(existsSync(join(target, 'api', tags![0]!.replaceAll(' ', '_'), `${file}.py`)), file).toBe(true)
    }
  }
  await Promise.all(world.interfaces.map(generate))
  const calls = await callsWithAnEnd(world)
  const input = calls.map((call) => ({ ...call, package: packageOf(call.service) }))
  const script = join(project, 'test', 'support', 'api-clients', 'calls.py')
  const answers = JSON.parse(await piped('python3', [script], JSON.stringify(input), env, folder)) as {
    status: number
    type: string
    same: boolean
    code: string | null
  }[]
  expect(
    answers.map(({ status, type, same, code }, n) => [
      calls[n]!.operationId,
      status,
      type === calls[n]!.faultType,
      same,
      type === calls[n]!.faultType ? code : undefined,
    ]),
  ).toEqual(
    calls.map(({ operationId, status, code }) => [operationId, status, code !== undefined, true, code]),
  )
})

function packageOf(service: string): string {
  return `client_of_${service.replaceAll('-', '_')}`
}
