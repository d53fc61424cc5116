/** The `flotilla` command in a process of its own, as an operator runs it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { anyPorts } from './any-ports.ts'
import { eventually } from './eventually.ts'

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))
const launcher = fileURLToPath(new URL('../../bin/flotilla.js', import.meta.url))

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunningProcess {
  child: ChildProcess
  stdout(): string
  stderr(): string
  /** Resolves with everything once the process has ended. */
  finished: Promise<Finished>
}

/** Variables of this machine that name engines must not reach the embedded tests. */
function environment(env: Record<string, string>): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR } = process.env
  return { PATH, HOME, ...(TMPDIR === undefined ? {} : { TMPDIR }), ...env }
}

export interface SpawnOptions {
  /** Opens a channel, as the launcher does. */
  ipc?: boolean
  /** Runs the command's own file, as a shell does, instead of what that loads. */
  launcher?: boolean
  /** The folder that it runs in. */
  cwd?: string
  /** Further variables. */
  env?: Record<string, string>
  /** Its standard input is a pipe: `child.stdin`. */
  input?: boolean
  /** Called with a function that kills the processes left. Default: when the test ends. */
  atEnd?(kill: () => Promise<void>): void
}

/** Starts it, with no variables of this machine but the most needed. */
export function spawnFlotilla(
  args: string[],
  env: Record<string, string>,
  options: SpawnOptions = {},
): RunningProcess {
  const child = spawn(process.execPath, [options.launcher ? launcher : main, ...args], {
    env: environment(env),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    stdio: [options.input ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(options.ipc ? (['ipc'] as const) : [])],
  })
  let stdout = ''
  let stderr = ''
  child.stdout!.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr!.on('data', (chunk) => {
    stderr += chunk
  })
  const finished = new Promise<Finished>((resolve) => {
    // Not `close`: with an IPC channel that was disconnected it never comes.
    child.on('exit', (code) => setTimeout(() => resolve({ code, stdout, stderr }), 50))
  })
  const atEnd = options.atEnd ?? onTestFinished
  atEnd(async () => {
    child.kill('SIGKILL')
    await finished
  })
  return { child, stdout: () => stdout, stderr: () => stderr, finished }
}

/** Runs a command to its end. */
export function runFlotilla(
  args: string[],
  env: Record<string, string>,
  options: SpawnOptions = {},
): Promise<Finished> {
  return spawnFlotilla(args, env, options).finished
}

export interface Addresses {
  vector_url: string
  base_url: string
  identity_exchange_url: string
  hub_url: string
  agent_gateway_url: string
  webhook_url: string
  pid: number
}

/** `flotilla start` on free ports; resolves when it has said `ready`. */
export async function startFlotilla(
  home: string,
  options: SpawnOptions = {},
): Promise<RunningProcess & { addresses: Addresses }> {
  const env = {
    FLOTILLA_HOME: home,
    ...anyPorts,
    LOG_LEVEL: 'warn',
    ...options.env,
  }
  const running = spawnFlotilla(['start'], env, options)
  await eventually(
    'the platform is ready',
    () => {
      if (running.child.exitCode !== null) throw new Error(`it ended: ${running.stderr()}`)
      return /^ready$/m.test(running.stdout())
    },
    150_000,
  )
  const addresses = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8'))
  return { ...running, addresses }
}
