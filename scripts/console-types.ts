/** Writes console/src/schema.d.ts, the types of the main API for the console, from its description. It is not committed. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pino from 'pino'
import { startPlatform } from '#runtime/start/start.ts'
import { mainApi } from '#services/main-api/service.ts'
import { migrationFolders } from '#services/migrations.ts'
import { projectRoot } from './source-files.ts'

interface Operation {
  responses: Record<string, { headers?: unknown }>
}

interface Description {
  servers: unknown
  paths: Record<string, Record<string, Operation>>
}

const file = join(projectRoot, 'console/src/schema.d.ts')
const home = mkdtempSync(join(tmpdir(), 'flotilla-'))
try {
  writeFileSync(file, await makeTypes())
} finally {
  rmSync(home, { recursive: true, force: true })
}

async function makeTypes(): Promise<string> {
  const description = join(home, 'openapi.json')
  writeFileSync(description, JSON.stringify(await describeMainApi()))
  const output = join(home, 'schema.d.ts')
  const resolve = createRequire(join(projectRoot, 'console/package.json')).resolve
  const command = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js')
  const args = [command, description, '--output', output]
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`openapi-typescript: ${stderr}`)
  return readFileSync(output, 'utf8')
}

/** The part that the console reads: paths below /api/v1, and their answers without problem documents. */
async function describeMainApi(): Promise<object> {
  const running = await startPlatform({
    migrations: migrationFolders,
    services: [mainApi],
    chosen: [],
    env: { FLOTILLA_HOME: join(home, 'platform'), MAIN_API_PORT: '0' },
    log: pino({ level: 'silent' }),
    print() {},
    control: () => async () => null,
  })
  try {
    const answer = await fetch(`${running.addresses.base_url}/api/v1/openapi.json`)
    const { servers: _, paths, ...rest } = (await answer.json()) as Description
    const own = Object.entries(paths).filter(([path]) => path.startsWith('/api/v1/'))
    for (const operation of own.flatMap(([, methods]) => Object.values(methods))) {
      operation.responses = withoutProblems(operation.responses)
    }
    return { ...rest, paths: Object.fromEntries(own) }
  } finally {
    await running.close()
  }
}

function withoutProblems(responses: Operation['responses']): Operation['responses'] {
  const good = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  return Object.fromEntries(good.map(([status, { headers: _, ...rest }]) => [status, rest]))
}
