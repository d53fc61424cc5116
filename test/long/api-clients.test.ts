/**
 * What others make of the API descriptions: a linter finds no fault, clients that two generators make contain every
 * operation and read every answer, and the requests of the reference page work in a shell.
 */

import { execFile, spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '#runtime/http/api/document.ts'
import { installOpenapiTools, installPythonPackage } from '../../scripts/servers/install.ts'
import { programOf } from '../support/api-clients/typescript.ts'
import { type DescribedPlatform, describedCalls, openDescribedPlatform } from '../support/described-calls.ts'
import { adminKey } from '../support/described-main-api.ts'

const run = promisify(execFile)
const timeoutMs = 120_000
const project = fileURLToPath(new URL('../../', import.meta.url))

let world: DescribedPlatform
let tools: string
let generator: string
let folder: string
beforeAll(async () => {
  tools = await installOpenapiTools()
  generator = await installPythonPackage('openapi-python-client', '0.29.1')
  world = await openDescribedPlatform()
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  for (const { name, document } of world.interfaces) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(document))
  }
})
afterAll(async () => {
  await world?.close()
  if (folder) rmSync(folder, { recursive: true, force: true })
})

/** Generated clients read an answer to its end. */
async function callsWithAnEnd() {
  return (await describedCalls(world)).filter(({ streams, code }) => !streams || code !== undefined)
}

/** `/<agent>/run` is the specification's, next to `/runs/{runId}`: a router prefers what is written out. */
const skipped = ['--skip-rule=no-ambiguous-paths']

test('the linter finds nothing, not even what it only warns of', async () => {
  const files = world.interfaces.map(({ name }) => join(folder, `${name}.json`))
  const cli = join(tools, 'node_modules', '@redocly', 'cli', 'bin', 'cli.js')
  const { stdout, stderr } = await run(
    process.execPath,
    [cli, 'lint', '--format=json', ...skipped, ...files],
    {
      cwd: folder,
      timeout: timeoutMs,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    },
  ).catch((error: { stdout: string; stderr: string }) => error)
  const reports = stdout.match(/"totals": \{[^}]*\}/g) ?? []
  expect(reports.length, stderr).toBeGreaterThan(0)
  for (const report of reports) expect(report, stdout).toMatch(/"errors": 0,\s+"warnings": 0/)
})

test('a client of openapi-typescript contains every operation, compiles, and its types fit every answer', async () => {
  const types = new Map<string, string>()
  for (const { name, document } of world.interfaces) {
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
  symlinkSync(join(tools, 'node_modules'), join(folder, 'node_modules'))
  const calls = await callsWithAnEnd()
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'calls.ts'), programOf(calls, types))
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['calls.ts'] }))
  const compiler = join(project, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [compiler, '-p', folder], { timeout: timeoutMs }).catch(
    ({ stdout }: { stdout: string }) => expect.fail(stdout.slice(0, 4_000)),
  )
  const { stdout } = await run(process.execPath, [join(folder, 'calls.ts')], { timeout: timeoutMs })
  const answers = JSON.parse(stdout) as { status: number; data?: object; error?: { code: string } }[]
  expect(
    answers.map(({ status, data, error }, n) => [
      calls[n]!.operationId,
      status,
      data !== undefined,
      error?.code,
    ]),
  ).toEqual(calls.map(({ operationId, status, code }) => [operationId, status, code === undefined, code]))
})

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

test('a client of openapi-python-client contains every operation and reads every answer whole', async () => {
  const env = {
    ...process.env,
    PYTHONPATH: `${generator}:${folder}`,
    PATH: `${join(generator, 'bin')}:${process.env.PATH}`,
    PYTHONDONTWRITEBYTECODE: '1',
  }
  for (const { name, document } of world.interfaces) {
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
  const calls = await callsWithAnEnd()
  const input = calls.map((call) => ({ ...call, package: packageOf(call.service) }))
  const script = join(project, 'test', 'support', 'api-clients', 'calls.py')
  const answers = JSON.parse(await piped('python3', [script], JSON.stringify(input), env)) as {
    status: number
    type: string
    same: boolean
    code: string | null
  }[]
  expect(
    answers.map(({ status, type, same, code }, n) => [
      calls[n]!.operationId,
      status,
      type === 'Problem',
      same,
      type === 'Problem' ? code : undefined,
    ]),
  ).toEqual(
    calls.map(({ operationId, status, code }) => [operationId, status, code !== undefined, true, code]),
  )
})

function packageOf(service: string): string {
  return `client_of_${service.replaceAll('-', '_')}`
}

test('every request of the reference page works when it is pasted into a shell', async () => {
  const shellFolder = join(folder, 'shell')
  mkdirSync(join(shellFolder, '.flotilla', 'agents', 'whale'), { recursive: true })
  writeFileSync(join(shellFolder, '.flotilla', 'agents', 'whale', 'ed25519.pem'), world.privateKeyPem)
  const { home } = world.platform.platform
  copyFileSync(join(home, 'admin-password'), join(shellFolder, '.flotilla', 'admin-password'))
  const samples = world.interfaces.flatMap(({ document }) =>
    [...operationsOf(document)]
      .filter(([, , { responses }]) => responses[200]?.content?.['text/event-stream'] === undefined)
      .map(([, , operation]) => ({
        id: operation.operationId,
        source: operation['x-codeSamples']![0]!.source,
      })),
  )
  // Whoever reads the page begins with a key and a point, deletes it last, then the agent, and signs out.
  const last = ['deletePoints', 'updateAgent', 'rotateAgent', 'deleteAgent', 'signOut']
  const rank = ({ id }: { id: string }) =>
    ['verify', 'upsertPoints', 'tradeAgentKey'].includes(id) ? -1 : last.indexOf(id) + 1
  samples.sort((a, b) => rank(a) - rank(b))
  const script = samples.flatMap(({ id, source }) => [
    `output=${join(shellFolder, id)}`,
    // As pasted: in this shell, so that what it exports is there for the others.
    `{ ${source}\n} > "$output" || exit 1`,
    ...(id === 'upsertPoints'
      ? [
          `OPERATION_ID=$(sed 's/.*"operation_id":"\\([^"]*\\)".*/\\1/' "$output")`,
          `for n in $(seq 100); do curl -sS "${world.platform.vectorUrl}/v1/operations/$OPERATION_ID" ` +
            `-H "Authorization: Bearer $GATEWAY_API_KEY" | grep -q applied && break; sleep 0.1; done`,
        ]
      : []),
  ])
  const env = { ...process.env, AGENT_KEY: await adminKey(world.platform) }
  await piped('bash', ['-s'], script.join('\n'), env, shellFolder)
  const answers = samples.map(({ id }) => [
    id,
    JSON.parse(readFileSync(join(shellFolder, id), 'utf8')) as object,
  ])
  for (const [id, answer] of answers) expect(answer, String(id)).not.toHaveProperty('code')
  const found = Object.fromEntries(answers) as Record<string, Record<string, unknown>>
  expect(found.getPoints).toMatchObject({ id: 'STIDX001-5f2d1c', payload: { status: 'active' } })
  expect(found.countPoints).toMatchObject({ count: 1 })
  expect(found.searchPoints).toMatchObject({ results: [{ id: 'STIDX001-5f2d1c' }] })
  expect(found.getOperation).toMatchObject({ status: 'applied' })
})

/** What a command prints that reads `input`. */
function piped(
  command: string,
  args: string[],
  input: string,
  env: NodeJS.ProcessEnv,
  cwd = folder,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, timeout: timeoutMs })
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      err += chunk
    })
    child.once('error', reject)
    child.once('close', (code) => (code === 0 ? resolve(out) : reject(new Error(`${command}: ${err}${out}`))))
    child.stdin.end(input)
  })
}
