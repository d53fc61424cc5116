/**
 * `import { startPlatform } from 'flotilla'`: a whole platform for a test, in a process of its own, which a test's fake
 * timers and mocks cannot reach. The public types are all in this file.
 */

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
// Taken at the import: a test that fakes the global timers must not hold up the platform.
import { clearTimeout, setTimeout } from 'node:timers'
import { fileURLToPath } from 'node:url'
import {
  type AddressFile,
  defaultSettings,
  documentIn,
  type Environment,
  faultOf,
  keepLines,
  type Lines,
  passedOn,
  portsOf,
  release,
  signalTo,
} from './library-child.ts'

export interface PlatformOptions {
  /**
   * Settings of the platform (docs/configuration.md), for example `OPENAI_BASE_URL` or `RUN_NODES_FILE`. They win over the
   * defaults: port 0 everywhere, LOG_LEVEL `warn`. Of the caller's own variables only those of the system are passed on
   * (PATH, HOME, TMPDIR, locale, proxies, npm's settings), so that a shell with KAFKA_BROKERS or DATABASE_URL does not make
   * a test write to real servers.
   */
  env?: Readonly<Record<string, string>>
  /** A data directory that is kept. Default: a temporary one, removed at the end. */
  home?: string
  /** How long the start may take. Default 60,000. */
  startMsMax?: number
  /** Receives each line of the platform's log. Without it nothing is printed; a failed start shows the last 50. */
  onLine?: (line: string) => void
  /** Aborting it stops the platform, also while it starts. */
  signal?: AbortSignal
}

/** Where the interfaces listen, named like the options of `createClient` and `createMainApi` of @flotilla/client. */
export interface PlatformAddresses {
  vectorUrl: string
  hubUrl: string
  runUrl: string
  webhookUrl: string
  /** The main API; the console is at `/console/` below it. */
  baseUrl: string
  identityExchangeUrl: string
}

/** The options of `flotilla agents provision`; docs/command-line.md explains them. */
export interface AgentOptions {
  /** A free label. Default `knowledge-worker`. */
  role?: string
  /** Default `member`. */
  access?: 'viewer' | 'member' | 'admin'
  tier?: 'agent' | 'research-agent' | 'infra-architect'
  /** Operations a day. */
  quota?: number
  /** Operations a second. */
  burst?: number
  /** Operations at once. */
  concurrent?: number
}

/** What `createClient` needs to act as the agent. */
export interface AgentCredentials {
  agentId: string
  privateKeyFile: string
}

export interface Platform {
  readonly addresses: PlatformAddresses
  /** The data directory. */
  readonly home: string
  /** The first admin, who signs in at the console or the main API. */
  readonly adminEmail: string
  /** The first admin's one-time password; null in a kept data directory where it was replaced. */
  readonly adminPassword: string | null
  /** Makes an agent with a key pair: `createClient({ ...platform.addresses, ...agent })` acts as that agent. */
  provisionAgent(agentId: string, options?: AgentOptions): Promise<AgentCredentials>
  /** Runs a `flotilla` command on this platform; resolves with its JSON document. `command('agent-keys', 'issue', 'scout')` */
  command(...args: string[]): Promise<unknown>
  /** Ends the process as `kill -9` does and keeps the data, to test how an agent takes a crash. `restart` is next, or `stop`. */
  kill(): Promise<void>
  /** Starts the platform again on the same data and at the same addresses; one that still runs is killed first. */
  restart(): Promise<void>
  /** Stops the platform and removes a temporary data directory. Later calls wait for the first one. */
  stop(): Promise<void>
  /** The same as `stop`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** A start or a command that failed; the message names the fault and the fix. */
export class PlatformError extends Error {
  override readonly name = 'PlatformError'
  /** One of docs/errors.md, or `invalid_option`, `start_failed`, `start_timeout`, `command_failed` or `not_running`. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const launcher = fileURLToPath(new URL('../bin/flotilla.js', import.meta.url))
const startMs = 60_000
/** The platform promises to stop within ten seconds; then it is killed. */
const stopMs = 20_000
const noDocument = 'It prints no JSON document: run it in a terminal, with FLOTILLA_HOME set to `home`.'
const outputBytesMax = 64 * 1024 * 1024

/**
 * Starts a platform on embedded engines and resolves when all of its interfaces answer. It ends with this process, however that
 * ends. Rejects with PlatformError, or with the reason of the signal.
 */
export async function startPlatform(options: PlatformOptions = {}): Promise<Platform> {
  checkOptions(options)
  const temporary = options.home === undefined
  const home = temporary ? mkdtempSync(join(tmpdir(), 'flotilla-')) : resolve(options.home!)
  const environment = { ...passedOn(process.env), ...defaultSettings, ...options.env, FLOTILLA_HOME: home }
  const start = (ports: Environment = {}) =>
    startProcess({ home, temporary, environment: { ...environment, ...ports } }, options)
  const tidy = async () => {
    if (temporary) await rm(home, { recursive: true, force: true, maxRetries: 5 })
  }
  let running = await start().catch(async (error: unknown) => {
    await tidy()
    throw error
  })
  const { addressFile } = running
  let stopping: Promise<void> | undefined
  async function end(): Promise<void> {
    await running.end('SIGTERM')
    await tidy()
  }
  const platform: Platform = {
    addresses: addressesOf(addressFile),
    home,
    adminEmail: 'admin@localhost',
    adminPassword: passwordIn(home),
    async provisionAgent(agentId, settings = {}) {
      const given = Object.entries(settings).filter(([, value]) => value !== undefined)
      const flags = given.map(([name, value]) => `--${name}=${value}`)
      const agent = await platform.command('agents', 'provision', `--agent-id=${agentId}`, ...flags)
      return { agentId, privateKeyFile: (agent as { private_key_file: string }).private_key_file }
    },
    async command(...args) {
      // Without a platform the command would open the engines by itself.
      if (stopping || !running.isAlive()) throw notRunning('Restart it, or start another one.')
      return await runCommand(args, environment)
    },
    kill: () => running.end('SIGKILL'),
    async restart() {
      if (stopping) throw notRunning('Start another one: this one was stopped for good.')
      // A temporary data directory goes away with a process that stops.
      await running.end('SIGKILL')
      running = await start(portsOf(addressFile))
      if (stopping) await running.end('SIGTERM')
    },
    stop() {
      stopping ??= end()
      return stopping
    },
    [Symbol.asyncDispose]: () => platform.stop(),
  }
  options.signal?.addEventListener('abort', () => void platform.stop(), { once: true })
  if (options.signal?.aborted) await platform.stop()
  options.signal?.throwIfAborted()
  return platform
}

function checkOptions({ env = {}, signal }: PlatformOptions): void {
  signal?.throwIfAborted()
  if (env.FLOTILLA_HOME !== undefined) {
    throw new PlatformError(
      'invalid_option',
      'Name the data directory in `home`, not in `env.FLOTILLA_HOME`.',
    )
  }
}

/** The launcher cannot set it in a process with a channel. Saves a fifth of the platform's memory. */
function smallEnvironment(): Environment {
  return JSON.parse(readFileSync(new URL('../bin/start-environment.json', import.meta.url), 'utf8'))
}

interface StartOptions {
  home: string
  temporary: boolean
  environment: Environment
}

interface Running {
  addressFile: AddressFile
  isAlive(): boolean
  /** Resolves when the process is gone; one that does not stop is killed. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

async function startProcess(
  { home, temporary, environment }: StartOptions,
  { onLine, signal, startMsMax = startMs }: PlatformOptions,
): Promise<Running> {
  const child = spawn(process.execPath, [launcher, 'start', ...(temporary ? ['--temporary'] : [])], {
    env: { ...smallEnvironment(), ...environment, FLOTILLA_LAUNCHED: '1' },
    // The channel closes when this process ends, also by kill -9, and the platform stops then.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, by) => resolve(by ? `it ended by ${by}` : `it ended with code ${code}`))
  })
  const lines = keepLines(child, onLine)
  let pid = child.pid
  const isAlive = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null
  async function end(first: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (!isAlive()) return
    child.ref()
    const kill = () => signalTo(pid!, 'SIGKILL')
    if (first === 'SIGKILL') kill()
    else child.kill(first)
    const timer = setTimeout(kill, stopMs)
    await exited
    clearTimeout(timer)
  }
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), startMsMax)
  const given = AbortSignal.any([late.signal, ...(signal ? [signal] : [])])
  const ended = await Promise.race([lines.ready, exited, once(given, 'abort')])
  clearTimeout(timer)
  if (ended === undefined) {
    const addressFile = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8')) as AddressFile
    // On an older Node the child is the launcher of the platform.
    pid = addressFile.pid
    release(child)
    return { addressFile, isAlive, end }
  }
  await end('SIGTERM')
  signal?.throwIfAborted()
  if (!late.signal.aborted) {
    // The process may end before its last words are read.
    if (child.pid !== undefined) await lines.end
    throw startFailed(lines, String(ended))
  }
  throw new PlatformError(
    'start_timeout',
    `The platform was not ready within ${startMsMax} ms: raise startMsMax.${lines.last()}`,
  )
}

function startFailed(lines: Lines, ended: string): PlatformError {
  const { code, message } = faultOf(lines.words(), 'start_failed')
  return new PlatformError(code, `The platform did not start: ${message || ended}${lines.last()}`)
}

function runCommand(args: string[], environment: Environment): Promise<unknown> {
  const options = { env: environment, maxBuffer: outputBytesMax }
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [launcher, ...args, '--json'], options, (error, stdout, stderr) => {
      const document = documentIn(stdout)
      if (error === null && document !== undefined) return resolve(document)
      const fault = document?.error ?? faultOf(stderr || (error?.message ?? noDocument), 'command_failed')
      reject(new PlatformError(fault.code, `flotilla ${args.join(' ')}: ${fault.message}`))
    })
  })
}

function notRunning(fix: string): PlatformError {
  return new PlatformError('not_running', `The platform does not run. ${fix}`)
}

function passwordIn(home: string): string | null {
  try {
    return readFileSync(join(home, 'admin-password'), 'utf8').trim()
  } catch {
    return null
  }
}

function addressesOf(file: AddressFile): PlatformAddresses {
  return {
    vectorUrl: file.vector_url,
    hubUrl: file.hub_url,
    runUrl: file.agent_gateway_url,
    webhookUrl: file.webhook_url,
    baseUrl: file.base_url,
    identityExchangeUrl: file.identity_exchange_url,
  }
}
