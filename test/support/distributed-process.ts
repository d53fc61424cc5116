/** Processes of the `flotilla` command that live as long as a test file: services on distributed engines, commands. */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { anyPorts } from './any-ports.ts'
import { eventually } from './eventually.ts'

/** The `flotilla` command of this checkout. */
export const commandOfToday = fileURLToPath(new URL('../../bin/flotilla.js', import.meta.url))

export interface ServiceProcess {
  child: ChildProcess
  home: string
  /** Empty where it runs no vector gateway. */
  vectorUrl: string
  /** Empty where it runs no main API. */
  baseUrl: string
  output(): string
  /** The exit code, null after a signal. */
  finished: Promise<number | null>
}

export interface Processes {
  /** `flotilla start NAMES`; resolves when it is ready. A home of its own unless one is given. */
  start(names: string[], options?: { home?: string; more?: Record<string, string> }): Promise<ServiceProcess>
  /** The same without waiting. */
  spawn(names: string[], options?: { home?: string; more?: Record<string, string> }): ServiceProcess
  /** Starts a command, which may be killed. */
  command(args: string[], home?: string): ServiceProcess
  /** Runs a command with --json to its end and gives its document; throws with its output when it failed. */
  run<T>(args: string[], home?: string): Promise<T>
  /** Kills (-9) the remaining processes, and removes their folders. */
  close(): Promise<void>
}

/**
 * Every process gets `env` and nothing of this machine's own variables that name engines. `command` is the file of another
 * version's `flotilla` command.
 */
export function createProcesses(env: Record<string, string>, command = commandOfToday): Processes {
  const folders: string[] = []
  const running = new Set<ServiceProcess>()
  const launched: ServiceProcess[] = []
  const newHome = () => {
    const home = mkdtempSync(join(tmpdir(), 'fl-'))
    folders.push(home)
    return home
  }

  function launch(args: string[], home: string, more: Record<string, string>): ServiceProcess {
    const { PATH = '', HOME = '', TMPDIR } = process.env
    const child = spawn(process.execPath, [command, ...args], {
      // The IPC channel ends it when this process is killed.
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: {
        PATH,
        HOME,
        ...(TMPDIR === undefined ? {} : { TMPDIR }),
        FLOTILLA_LAUNCHED: '1',
        FLOTILLA_HOME: home,
        ...anyPorts,
        LOG_LEVEL: 'info',
        ...env,
        ...more,
      },
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
      })
    }
    const one: ServiceProcess = {
      child,
      home,
      vectorUrl: '',
      baseUrl: '',
      output: () => output,
      finished: new Promise((resolve) => {
        child.once('exit', (code) => {
          running.delete(one)
          // Its last output is on its way.
          setTimeout(() => resolve(code), 50)
        })
      }),
    }
    running.add(one)
    launched.push(one)
    return one
  }

  const processes: Processes = {
    spawn: (names, { home = newHome(), more = {} } = {}) => launch(['start', ...names], home, more),
    async start(names, options) {
      const one = processes.spawn(names, options)
      await untilReady(one, names)
      return withAddress(one)
    },
    command: (args, home = newHome()) => launch(args, home, { LOG_LEVEL: 'error' }),
    async run<T>(args: string[], home = newHome()) {
      const one = launch([...args, '--json'], home, { LOG_LEVEL: 'error' })
      const code = await one.finished
      const line = one
        .output()
        .split('\n')
        .findLast((text) => text.startsWith('{'))
      if (code !== 0 || line === undefined) {
        throw new Error(`flotilla ${args.join(' ')} ended with ${code}: ${one.output().slice(-2_000)}`)
      }
      return JSON.parse(line) as T
    },
    async close() {
      const left = [...running]
      for (const one of left) one.child.kill('SIGKILL')
      await Promise.all(left.map((one) => one.finished))
      for (const folder of folders) rmSync(folder, { recursive: true, force: true })
      tellFaults(launched)
    },
  }
  return processes
}

/** An answer of 500 alone says nothing: what a process wrote of its faults goes to standard error, bounded. */
function tellFaults(launched: ServiceProcess[]): void {
  const faults = launched.flatMap((one) =>
    one
      .output()
      .split('\n')
      .filter((line) => line.includes('"level":50')),
  )
  for (const line of faults.slice(0, 20)) process.stderr.write(`${line.slice(0, 1_500)}\n`)
}

/** Resolves when it has printed `ready`; throws with its last words when it ended. */
export async function untilReady(
  one: ServiceProcess,
  names: string[] = [],
  timeoutMs = 120_000,
): Promise<void> {
  const ended = () => one.child.exitCode !== null || one.child.signalCode !== null
  const ready = () => /^ready$/m.test(one.output()) || ended()
  await eventually(`${names.join(', ') || 'the platform'} is ready`, ready, timeoutMs).catch((error) => {
    throw new Error(`${error}\n${one.output().slice(-3_000)}`)
  })
  if (ended()) throw new Error(`it ended at its start: ${one.output().slice(-3_000)}`)
}

/** With the addresses that it wrote, when it has some. */
export function withAddress(one: ServiceProcess): ServiceProcess {
  const addresses = JSON.parse(readFileSync(join(one.home, 'run', 'addresses.json'), 'utf8'))
  return { ...one, vectorUrl: addresses.vector_url ?? '', baseUrl: addresses.base_url ?? '' }
}
