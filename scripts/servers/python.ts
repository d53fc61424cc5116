/** Environments of Python with what the Python client and its adapters need, and what checks them. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runCommand } from './children.ts'
import { install } from './install.ts'

const libraries = {
  cryptography: '50.0.2',
  httpx2: '2.16.2',
  numpy: '2.4.6',
  orjson: '3.13.0',
  pydantic: '2.14.4',
}
const tools = ['hatchling==1.33.0', 'mypy==2.4.1', 'pytest==9.2.0', 'pytest-asyncio==1.5.0', 'ruff==0.17.6']
/** Suites that frameworks publish for adapters. */
const suites: Readonly<Record<string, readonly string[]>> = { langchain: ['langchain-tests==1.1.9'] }
const project = new URL('../../packages/client-python/pyproject.toml', import.meta.url)
const installTimeoutMs = 900_000

/**
 * The interpreter of the environment, in which the client itself is not installed. With the name of an adapter it also has the
 * framework, in the versions that the adapter's extra takes; `more` are further packages. Needs Python 3.11 or later with pip.
 */
export async function installPythonClientTools(
  adapter?: string,
  more: readonly string[] = [],
): Promise<string> {
  const program = join('bin', 'python')
  const extra = adapter === undefined ? [] : [...extraOf(adapter), ...(suites[adapter] ?? [])]
  const fixed = Object.entries(libraries).map(([name, version]) => `${name}==${version}`)
  // A framework may need another version of a library than its newest.
  const packages = [...(adapter === undefined ? fixed : Object.keys(libraries)), ...tools, ...extra, ...more]
  // Another list is another environment.
  const version = createHash('sha256').update(packages.join()).digest('hex').slice(0, 12)
  const name = ['python', adapter ?? 'client', version].join('-')
  const folder = await install(name, join('bin', 'pytest'), async (target) => {
    await runCommand('python3', ['-m', 'venv', target], { timeoutMs: installTimeoutMs })
    const options = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]
    await runCommand(join(target, program), options, { timeoutMs: installTimeoutMs })
  })
  return join(folder, program)
}

/** The requirements of an extra. */
function extraOf(adapter: string): string[] {
  const line = new RegExp(`^${adapter} = (\\[.*\\])$`, 'm').exec(readFileSync(project, 'utf8'))
  if (line === null) throw new Error(`pyproject.toml has no extra ${adapter} on a line of its own`)
  return JSON.parse(line[1]!) as string[]
}
