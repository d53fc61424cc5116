/** An environment of Python with what the Python client needs and what checks it. */

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { runCommand } from './children.ts'
import { install } from './install.ts'

const packages = [
  'cryptography==50.0.2',
  'hatchling==1.33.0',
  'httpx2==2.16.2',
  'mypy==2.4.1',
  'pydantic==2.14.4',
  'pytest==9.2.0',
  'pytest-asyncio==1.5.0',
  'ruff==0.17.6',
]
const installTimeoutMs = 600_000

/** The interpreter of the environment, in which the client itself is not installed. Needs Python 3.11 or later with pip. */
export async function installPythonClientTools(): Promise<string> {
  const program = join('bin', 'python')
  // Another list is another environment.
  const version = createHash('sha256').update(packages.join()).digest('hex').slice(0, 12)
  const folder = await install(`python-client-${version}`, join('bin', 'pytest'), async (target) => {
    await runCommand('python3', ['-m', 'venv', target], { timeoutMs: installTimeoutMs })
    const options = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]
    await runCommand(join(target, program), options, { timeoutMs: installTimeoutMs })
  })
  return join(folder, program)
}
