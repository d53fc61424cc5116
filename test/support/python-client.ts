/** The Python client next to a platform: programs that use it, and what its own tools say of it. */

import { execFile, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'
import { installPythonClientTools } from '../../scripts/servers/python.ts'
import { runFlotilla, type SpawnOptions } from './flotilla-process.ts'
import { projectFolder } from './pages.ts'

export const clientFolder = join(projectFolder, 'packages', 'client-python')

/** What it writes goes nowhere near the sources. */
function environment(env: Record<string, string>): NodeJS.ProcessEnv {
  const { PATH = '', HOME = '' } = process.env
  return { PATH, HOME, PYTHONPATH: join(clientFolder, 'src'), PYTHONDONTWRITEBYTECODE: '1', ...env }
}

/** Runs Python with the client, and the framework of an adapter, to its end; rejects with everything that it said. */
export async function runPython(
  args: string[],
  env: Record<string, string> = {},
  cwd = clientFolder,
  adapter?: string,
): Promise<string> {
  const python = await installPythonClientTools(adapter)
  const options = { cwd, env: environment(env), timeout: 600_000, maxBuffer: 16 << 20 }
  try {
    return (await promisify(execFile)(python, args, options)).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`python ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
}

export interface PythonProgram {
  /** What it has printed, a JSON document a line. */
  printed(): Record<string, unknown>[]
  /** Resolves with its exit code. */
  finished: Promise<number | null>
  stderr(): string
}

/** Starts a program that goes on while the test runs; it is killed when the test ends. */
export async function startPython(file: string, env: Record<string, string>): Promise<PythonProgram> {
  const python = await installPythonClientTools()
  const child = spawn(python, [file], { env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const finished = new Promise<number | null>((resolve) => {
    child.on('close', resolve)
  })
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await finished
  })
  const printed = () => {
    const lines = stdout.split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }
  return { printed, finished, stderr: () => stderr }
}

/** The agent of the Python tests, with an agent key that they find in the data directory. */
export async function provisionRover(home: string, options: SpawnOptions = {}): Promise<void> {
  const env = { FLOTILLA_HOME: home }
  const provisioned = await runFlotilla(['agents', 'provision', 'rover'], env, options)
  if (provisioned.code !== 0) throw new Error(provisioned.stderr)
  const issued = await runFlotilla(['agent-keys', 'issue', 'rover', '--json'], env, options)
  writeFileSync(join(home, 'rover-agent-key'), (JSON.parse(issued.stdout) as { key: string }).key)
}
