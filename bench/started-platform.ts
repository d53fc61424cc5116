/** The platform as a user runs it, in a clone or installed, on a data directory of its own, with all of its processes. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { readAddresses } from '#runtime/start/addresses.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
export const command = join(root, 'bin/flotilla.js')

/** Far more than a start takes on a machine that is busy. */
const readyTimeoutMs = 120_000
const stopTimeoutMs = 60_000

export interface StartedPlatform {
  /** The process of npm; the platform is below it. */
  pid: number
  /** From the start of npm to the line `ready`. */
  readyMs: number
  vectorUrl: string
  /** Runs a `flotilla` command on it and parses what that prints. */
  run<T>(...args: string[]): Promise<T>
  /** As a service manager stops it; resolves when every process has ended. */
  stop(): Promise<void>
}

export interface Home {
  path: string
  /** Bytes of the disk that its files take. */
  diskBytes(): number
  remove(): void
}

export function createHome(): Home {
  const path = mkdtempSync(join(tmpdir(), 'fl-footprint-'))
  return {
    path,
    diskBytes: () => diskBytes(path),
    remove: () => rmSync(path, { recursive: true, force: true }),
  }
}

/** How the platform is started: by npm in the clone, or by npx where the package is installed. */
export const inClone = { folder: root, start: ['npm', 'start'] }
export const installedIn = (folder: string): typeof inClone => ({
  folder,
  start: ['npx', 'flotilla', 'start'],
})

/** `more` are further variables. */
export async function startPlatform(
  home: Home,
  { folder, start } = inClone,
  more: Record<string, string> = {},
): Promise<StartedPlatform> {
  const env = {
    ...process.env,
    FLOTILLA_HOME: home.path,
    VECTOR_GATEWAY_PORT: '0',
    MAIN_API_PORT: '0',
    HUB_PORT: '0',
    RUN_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
    LOG_LEVEL: 'error',
    ...more,
  }
  const begun = performance.now()
  const [program = '', ...args] = start
  const npm = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(npm, 'exit')
  await untilReady(npm)
  const readyMs = performance.now() - begun
  const addresses = readAddresses(home.path)!
  return {
    pid: npm.pid!,
    readyMs,
    vectorUrl: String(addresses.vector_url),
    async run<T>(...args: string[]) {
      const { stdout } = await promisify(execFile)(process.execPath, [command, ...args, '--json'], { env })
      return JSON.parse(stdout) as T
    },
    async stop() {
      process.kill(addresses.pid, 'SIGTERM')
      const cut = setTimeout(() => process.kill(addresses.pid, 'SIGKILL'), stopTimeoutMs)
      await ended
      clearTimeout(cut)
    },
  }
}

function untilReady(npm: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = ''
    const late = setTimeout(() => {
      npm.kill()
      reject(new Error(`the platform was not ready after ${readyTimeoutMs} ms`))
    }, readyTimeoutMs)
    npm.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      if (!/^ready$/m.test(text)) return
      clearTimeout(late)
      resolve()
    })
    npm.once('exit', (code) => {
      clearTimeout(late)
      reject(new Error(`the platform ended with code ${code}`))
    })
  })
}

/** As `du` counts: blocks, not lengths, because files may have holes. */
export function diskBytes(folder: string): number {
  let bytes = lstatSync(folder).blocks * 512
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    bytes += entry.isDirectory() ? diskBytes(path) : lstatSync(path).blocks * 512
  }
  return bytes
}
