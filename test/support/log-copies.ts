/** A platform as one process that is killed and started again on its port, notes that are written meanwhile, and copies. */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { createMainApi, type MainApi, type Note, ProblemError, type TopicRecord } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { freePort } from '../../scripts/servers/children.ts'
import { createProcesses, type Processes, type ServiceProcess } from './distributed-process.ts'
import { eventually } from './eventually.ts'

/** The lease of a publisher that was killed has to end first. */
const publishedWithinMs = 120_000

export interface KilledPlatform {
  processes: Processes
  home: string
  baseUrl: string
  /** Holds an agent key of an admin. */
  keyFile: string
  api: MainApi
  /** kill -9, and the start of another one on the same port. */
  killAndStart(): Promise<void>
  /** In order. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

export async function openKilledPlatform(env: Record<string, string>): Promise<KilledPlatform> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const processes = createProcesses(env)
  const port = await freePort()
  const baseUrl = `http://127.0.0.1:${port}`
  let running: ServiceProcess
  async function start(): Promise<void> {
    running = await processes.start([], { home, more: { MAIN_API_PORT: String(port), LOG_LEVEL: 'warn' } })
  }
  async function end(signal: NodeJS.Signals): Promise<void> {
    running.child.kill(signal)
    await running.finished
  }
  await start()
  const who = ['--agent-id', 'copier', '--access', 'admin', '--tier', 'infra-architect']
  await processes.run(['agents', 'provision', ...who], home)
  const { key } = await processes.run<{ key: string }>(['agent-keys', 'issue', 'copier'], home)
  const keyFile = join(home, 'agent-key.txt')
  writeFileSync(keyFile, key)
  const api = createMainApi({ baseUrl, agentKey: key })
  return {
    processes,
    home,
    baseUrl,
    keyFile,
    api,
    start,
    stop: () => end('SIGTERM'),
    async killAndStart() {
      await end('SIGKILL')
      await start()
    },
    async close() {
      await api.close()
      await processes.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Writes notes, changes some and archives others, until it is stopped; what meets a platform that is away is tried again. */
export function writeNotes(api: MainApi) {
  let stopped = false
  let written = 0
  async function patiently<T>(work: () => Promise<T>): Promise<T | undefined> {
    while (!stopped) {
      try {
        return await work()
      } catch (error) {
        if (!isPassing(error)) throw error
        await sleep(50)
      }
    }
    return undefined
  }
  async function run(): Promise<void> {
    for (let n = 1; !stopped; n++) {
      const idempotencyKey = crypto.randomUUID()
      const note = await patiently(() =>
        api.notes.create({ subject: `note ${n}`, body: 'ü'.repeat(n % 50) || '-' }, { idempotencyKey }),
      )
      if (note && n % 3 === 0) await patiently(() => api.notes.update(note.id, { status: 'archived' }))
      written = n
      await sleep(5)
    }
  }
  const running = run()
  return {
    written: () => written,
    async stop(): Promise<void> {
      stopped = true
      await running
    },
  }
}

/** Also that the first try of a note, which was cut off, is not known to be over. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return false
  return error.status === 0 || error.status >= 500 || error.code === 'idempotency_in_progress'
}

/** The hub's notes, by id and subject. */
export async function activeNotes(api: MainApi): Promise<string[]> {
  const notes: Note[] = []
  for await (const note of api.notes.all({ status: 'active', limit: 1_000 })) notes.push(note)
  return notes.map(({ id, subject }) => `${id} ${subject}`).sort()
}

type HubValue = { kind: string; id: number; title: string; status: string }

/** Resolves with the active notes when the log holds every note as the hub has it: rows wait in the outbox for a while. */
export async function untilPublished(api: MainApi): Promise<string[]> {
  const hub: string[] = []
  for (const status of ['active', 'archived'] as const) {
    for await (const { id } of api.notes.all({ status, limit: 1_000 })) hub.push(`${id} ${status}`)
  }
  const isPublished = async () => {
    const states = new Map<string, HubValue>()
    const held = api.records<HubValue>('hub.records', { follow: false })
    for await (const { key, value } of held) if (value) states.set(key!, value)
    const notes = [...states.values()].filter(({ kind }) => kind === 'note')
    return String(notes.map(({ id, status }) => `${id} ${status}`).sort()) === String(hub.sort())
  }
  await eventually('all notes are in the log', isPublished, publishedWithinMs)
  return activeNotes(api)
}

/** Follows hub.records with the client, and keeps the newest of each note and every place that it was given. */
export function followNotes(api: MainApi) {
  const states = new Map<string, HubValue>()
  const places: string[] = []
  const stop = new AbortController()
  let expired: string | undefined
  async function run(): Promise<void> {
    const options = { signal: stop.signal, awayMs: 240_000 }
    for await (const record of api.records<HubValue>('hub.records', options)) take(record)
  }
  function take({ key, value, partition, offset }: TopicRecord<HubValue>): void {
    places.push(`${partition}/${offset}`)
    if (value === null) states.delete(key!)
    else states.set(key!, value)
  }
  const running = run().catch((error: unknown) => {
    if (!(error instanceof ProblemError)) throw error
    expired = error.code
  })
  return {
    places,
    /** The code that ended it. */
    ended: () => expired,
    active: () =>
      [...states.values()]
        .filter(({ kind, status }) => kind === 'note' && status === 'active')
        .map(({ id, title }) => `${id} ${title}`)
        .sort(),
    async stop(): Promise<void> {
      stop.abort()
      await running
    },
  }
}

const examples = fileURLToPath(new URL('../../docs/examples/', import.meta.url))

export interface PythonCopy {
  /** Below docs/examples. */
  program: string
  /** Before the file of the copy, which is the last one. */
  args: readonly string[]
  /** Where the packages are that it imports. */
  packages?: string
}

/** An example program in a process of its own, which may be killed and started again. */
export function runPythonCopy(home: string, { program, args, packages }: PythonCopy) {
  const file = join(home, `${program}.sqlite`)
  let child: ChildProcess
  let errors = ''
  const ended = () => child.exitCode !== null || child.signalCode !== null
  function start(): void {
    child = spawn('python3', [join(examples, program), ...args, file], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...(packages ? { PYTHONPATH: packages } : {}) },
    })
    child.stderr?.on('data', (chunk) => {
      errors += chunk
    })
  }
  async function kill(): Promise<void> {
    if (ended()) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }
  start()
  return {
    kill,
    start,
    /** Its last words. */
    errors: () => errors.slice(-2_000),
    ended,
    /** While it runs, too. */
    active(): string[] {
      const db = new DatabaseSync(file, { timeout: 5_000 })
      try {
        const rows = db.prepare("select note from notes where status = 'active'").all() as { note: string }[]
        return rows
          .map(({ note }) => JSON.parse(note) as HubValue)
          .map(({ id, title }) => `${id} ${title}`)
          .sort()
      } finally {
        db.close()
      }
    },
  }
}
