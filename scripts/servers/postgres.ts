/**
 * Starts Postgres with pgvector on a free port, with a temporary data folder and without syncs (it is only for
 * tests).
 */

import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { sleep } from '#lib/backoff.ts'
import { freePort, removeAtEnd, runCommand, type ServerChild, startChild, untilReady } from './children.ts'
import { installPostgres } from './install.ts'
import type { LocalServer } from './registry.ts'

const user = 'postgres'
/**
 * No power cut is survived, but every kill: committed data has been given to the system (synchronous_commit stays
 * on).
 */
const settings = ['fsync=off', 'full_page_writes=off', 'shared_buffers=64MB', 'max_connections=200']

export interface RunningPostgres extends LocalServer {
  /** kill -9 of the server process; its own children end when they notice. */
  kill9(): Promise<void>
  /** Resolves when it serves again, on the same port, what it held. */
  start(): Promise<void>
}

/** How often a start waits for what a killed server left running. */
const startsMax = 40

/**
 * `url` is the maintenance database; suites make databases of their own on the same server. With a password the server
 * asks everybody for it, by SCRAM.
 */
export async function openPostgres({ password }: { password?: string } = {}): Promise<RunningPostgres> {
  const installed = await installPostgres()
  const folder = mkdtempSync(join(tmpdir(), 'fl-pg-'))
  removeAtEnd(folder)
  const passwordFile = join(folder, 'password')
  if (password !== undefined) writeFileSync(passwordFile, password)
  if (isRoot()) handOver(folder)
  const bin = join(readableInstall(installed, folder), 'bin')
  const data = join(folder, 'data')
  const port = await freePort()
  const access =
    password === undefined ? ['-A', 'trust'] : ['-A', 'scram-sha-256', `--pwfile=${passwordFile}`]
  const init = ['-D', data, '-U', user, ...access, '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync']
  const [initCommand, ...initArgs] = asServerUser([join(bin, 'initdb'), ...init])
  await runCommand(initCommand!, initArgs, { cwd: folder, timeoutMs: 60_000 })
  const serve = [join(bin, 'postgres'), '-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder]
  const [command, ...args] = asServerUser([...serve, ...settings.flatMap((setting) => ['-c', setting])])
  const login = password === undefined ? user : `${user}:${password}`
  const url = `postgres://${login}@127.0.0.1:${port}/postgres`
  let child: ServerChild
  async function start(): Promise<void> {
    for (let starts = 1; ; starts++) {
      child = startChild(command!, args, { logFile: join(folder, 'server.log'), cwd: folder })
      try {
        return await untilReady('Postgres', child, () => answers(url))
      } catch (error) {
        // The memory that a killed server shared is in use until the last of its children has ended.
        if (starts === startsMax || !child.output().includes('shared memory')) throw error
        await sleep(250)
      }
    }
  }
  await start()
  const kill9 = () => child.kill('SIGKILL')
  return {
    url,
    get pid() {
      return child.pid
    },
    start,
    kill9,
    close: kill9,
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } finally {
    await client.end().catch(() => {})
  }
}

/** Postgres refuses to run as root: then everything runs as the user `postgres`, made when it is missing. */
function asServerUser(command: string[]): string[] {
  return isRoot() ? ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups', ...command] : command
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

function handOver(folder: string): void {
  if (!succeeds('id', [user])) execFileSync('useradd', ['-r', '-M', '-s', '/usr/sbin/nologin', user])
  execFileSync('chown', ['-R', `${user}:${user}`, folder])
  chmodSync(folder, 0o700)
}

/** The installation, or a copy of it where the cache is in a folder that the server's user may not read. */
function readableInstall(installed: string, folder: string): string {
  const [command, ...args] = asServerUser(['test', '-x', join(installed, 'bin', 'postgres')])
  if (succeeds(command!, args)) return installed
  const copy = join(folder, 'install')
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true })
  execFileSync('chown', ['-R', `${user}:${user}`, copy])
  return copy
}

function succeeds(command: string, args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
