/**
 * Starts the server processes of a test run, each with a log file, and ends them with the process that started them.
 */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { sleep } from '#lib/backoff.ts'

export interface ServerChild {
  readonly pid: number
  running(): boolean
  /** Its output since its start. */
  output(): string
  /** Resolves when the process is gone. */
  kill(signal: 'SIGTERM' | 'SIGKILL', timeoutMs?: number): Promise<void>
}

interface ChildOptions {
  logFile: string
  cwd?: string
  env?: Record<string, string | undefined>
}

/** Starts a server in a process group of its own, so that Ctrl-C reaches only the parent, which ends it in order. */
export function startChild(command: string, args: string[], options: ChildOptions): ServerChild {
  const log = openSync(options.logFile, 'a')
  const from = readFileSync(options.logFile).length
  const child = spawn(command, args, {
    detached: true,
    stdio: ['ignore', log, log],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: { ...process.env, ...options.env } }),
  })
  closeSync(log)
  let gone = false
  const exited = new Promise<void>((resolve) => {
    const end = () => {
      gone = true
      if (child.pid !== undefined) tellReaper(`forget ${child.pid}`)
      resolve()
    }
    child.once('exit', end)
    child.once('error', end)
  })
  child.unref()
  if (child.pid === undefined) throw new Error(`cannot start ${command}: is it installed and on the PATH?`)
  tellReaper(`process ${child.pid}`)
  return {
    pid: child.pid,
    running: () => !gone,
    output: () => readFileSync(options.logFile).subarray(from).toString('utf8'),
    async kill(signal, timeoutMs = 15_000) {
      if (!gone) child.kill(signal)
      const hard = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
      await exited
      clearTimeout(hard)
    },
  }
}

/** Removes a folder when the run ends, also when this process is killed. */
export function removeAtEnd(folder: string): void {
  if (/\s/.test(folder)) throw new Error(`temporary folders must have no spaces: ${folder}`)
  tellReaper(`folder ${folder}`)
}

/**
 * The reaper is a shell that reads from a pipe which processes to end. The pipe closes when this process ends, however
 * it ends (kill -9 included): then the shell kills the remaining processes and removes the folders.
 */
const reaperScript = `
pids=''; folders=''
while read -r what name; do
  case $what in
    process) pids="$pids $name" ;;
    forget) kept=''; for pid in $pids; do [ "$pid" = "$name" ] || kept="$kept $pid"; done; pids=$kept ;;
    folder) folders="$folders $name" ;;
  esac
done
[ -n "$pids" ] && kill -9 $pids 2>/dev/null && sleep 1
[ -n "$folders" ] && rm -rf $folders
exit 0`

let reaper: ChildProcess | undefined

function tellReaper(line: string): void {
  if (!reaper) {
    reaper = spawn('/bin/sh', ['-c', reaperScript], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
    reaper.unref()
    ;(reaper.stdin as { unref?: () => void } | null)?.unref?.()
  }
  reaper.stdin?.write(`${line}\n`)
}

/** Runs a command to its end; rejects with the tail of what it wrote. */
export function runCommand(
  command: string,
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; timeoutMs: number },
) {
  return new Promise<string>((resolve, reject) => {
    execFile(
      command,
      args,
      {
        timeout: options.timeoutMs,
        maxBuffer: 16 << 20,
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        ...(options.env === undefined ? {} : { env: { ...process.env, ...options.env } }),
      },
      (error, stdout, stderr) => {
        if (!error) return resolve(stdout)
        const said = `${stdout}\n${stderr}`.trim().slice(-1_500)
        reject(new Error(`${command} ${args.slice(0, 3).join(' ')} failed: ${said || error.message}`))
      },
    )
  })
}

const givenPorts = new Set<number>()

/**
 * A TCP port of the loopback address that is free now. It is below the range that systems take the ports of outgoing
 * connections from (32768 and up): one of those could take it between this look and the start of its server.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000)
    if (givenPorts.has(port) || !(await isFree(port))) continue
    givenPorts.add(port)
    return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** Polls until the server answers; fails at once, with its last words, when its process ends. */
export async function untilReady(
  name: string,
  child: ServerChild,
  ready: () => boolean | Promise<boolean>,
  timeoutMs = 90_000,
): Promise<void> {
  const end = Date.now() + timeoutMs
  while (Date.now() < end) {
    if (!child.running()) throw new Error(`${name} ended at its start:\n${child.output().slice(-2_000)}`)
    if (await Promise.resolve(ready()).catch(() => false)) return
    await sleep(50)
  }
  throw new Error(`${name} is not ready after ${timeoutMs} ms:\n${child.output().slice(-2_000)}`)
}
