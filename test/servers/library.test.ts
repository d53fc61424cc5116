/** `startPlatform` of the package, as somebody else's test uses it. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type AgentCredentials, type Platform, PlatformError, startPlatform } from 'flotilla'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { createMainApi } from '#client/main-api.ts'
import { isAlive } from '#runtime/start/addresses.ts'
import { eventually } from '../support/eventually.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

vi.setConfig({ testTimeout: 240_000 })
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
  vi.unstubAllEnvs()
})

const pidOf = ({ home }: { home: string }): number =>
  JSON.parse(readFileSync(join(home, 'run/addresses.json'), 'utf8')).pid

/** Temporary data directories of the test are made in this folder. */
function ownTemporaryFolder(): string {
  const folder = temporaryFolder()
  vi.stubEnv('TMPDIR', folder)
  return folder
}

async function failureOf(work: Promise<unknown>): Promise<PlatformError> {
  const error = await work.then(
    () => undefined,
    (reason) => reason,
  )
  expect(error).toBeInstanceOf(PlatformError)
  return error
}

describe('a platform', () => {
  let platform: Platform
  let scout: AgentCredentials
  let client: Client
  beforeAll(async () => {
    platform = await startPlatform()
    scout = await platform.provisionAgent('scout', { role: 'pathfinder', access: 'admin', burst: 500 })
    client = createClient({ ...platform.addresses, ...scout })
  })
  afterAll(async () => {
    await client?.close()
    await platform?.stop()
  })

  it('stores and finds points, and passes on messages', async () => {
    const [made] = (await client.embeddings('The lighthouse is repaired')).data
    const point = { id: 'log-1', vector: made!.embedding, payload: { title: 'Lighthouse' } }
    await client.upsert('knowledgebase', [point], { wait: true })
    const found = await client.recall('knowledgebase', 'Is the lighthouse repaired?')
    expect(found.results[0]).toMatchObject({ id: 'log-1', payload: { title: 'Lighthouse' } })
    const { run, events } = await client.runs.run('atlas', 'Is the lighthouse repaired?')
    expect(run.status).toBe('completed')
    expect(events[0]!.author).toBe('ATLAS')
  })

  it('runs commands: an agent key opens the main API', async () => {
    const agent = await platform.command('agents', 'show', 'scout')
    expect(agent).toMatchObject({ role: 'pathfinder', access: 'admin', burst: 500 })
    const { key } = (await platform.command('agent-keys', 'issue', 'scout')) as { key: string }
    const api = createMainApi({ ...platform.addresses, agentKey: key })
    expect(await api.me()).toMatchObject({ slug: 'scout' })
    await api.close()
    const unknown = await failureOf(platform.command('agents', 'show', 'nobody'))
    expect([unknown.code, unknown.message]).toEqual([
      'not_found',
      'flotilla agents show nobody: There is no agent named nobody.',
    ])
    const help = await failureOf(platform.command('agents', '--help'))
    expect(help.code).toBe('command_failed')
    expect(await failureOf(platform.provisionAgent('--force'))).toMatchObject({ code: 'validation_failed' })
    expect(await failureOf(platform.provisionAgent('scout'))).toMatchObject({ code: 'conflict' })
  })

  it('lets the first admin in', async () => {
    const { adminEmail: email, adminPassword: password } = platform
    const body = JSON.stringify({ email, password })
    const headers = { 'content-type': 'application/json' }
    const url = `${platform.addresses.baseUrl}/api/v1/session`
    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(200)
  })

  it('another runs next to it, and knows nothing of it', async () => {
    await using other = await startPlatform()
    const urls = Object.values({ ...platform.addresses, ...other.addresses, home: other.home })
    expect(urls).not.toEqual(expect.arrayContaining([platform.addresses.vectorUrl, platform.home]))
    const error = await failureOf(other.command('agents', 'show', 'scout'))
    expect(error.code).toBe('not_found')
  })

  it('is found at the same addresses after a crash, with all that it had acknowledged', async () => {
    const pid = pidOf(platform)
    await platform.kill()
    expect(isAlive(pid)).toBe(false)
    expect(await failureOf(platform.command('agents', 'list'))).toMatchObject({ code: 'not_running' })
    await platform.restart()
    expect(pidOf(platform)).not.toBe(pid)
    expect((await client.get('knowledgebase', 'log-1')).payload).toEqual({ title: 'Lighthouse' })
  })

  it('refuses a data directory that is in use, naming its owner', async () => {
    const error = await failureOf(startPlatform({ home: platform.home }))
    expect(error.code).toBe('data_directory_in_use')
    expect(error.message).toContain(String(pidOf(platform)))
    expect(existsSync(join(platform.home, 'secret-key'))).toBe(true)
  })

  it('stops once, and removes its folder', async () => {
    await client.close()
    const pid = pidOf(platform)
    await Promise.all([platform.stop(), platform.stop()])
    await platform.stop()
    expect([isAlive(pid), existsSync(platform.home)]).toEqual([false, false])
    const error = await failureOf(platform.restart())
    expect(error.message).toBe('The platform does not run. Start another one: this one was stopped for good.')
  })
})

it('neither variables of the shell, nor fake timers, nor a mocked fetch touch it', async () => {
  const home = join(temporaryFolder(), 'of-the-shell')
  const temporary = ownTemporaryFolder()
  vi.stubEnv('KAFKA_BROKERS', '127.0.0.1:9')
  vi.stubEnv('DATABASE_URL', 'postgres://nobody@127.0.0.1:9/none')
  vi.stubEnv('FLOTILLA_HOME', home)
  vi.stubEnv('NODE_OPTIONS', '--no-such-option')
  vi.stubGlobal('fetch', () => Promise.reject(new Error('mocked')))
  vi.useFakeTimers()
  const platform = await startPlatform()
  const agent = await platform.provisionAgent('scout')
  expect(agent.privateKeyFile).toBe(join(platform.home, 'agents/scout/ed25519.pem'))
  await platform.stop()
  expect(existsSync(home)).toBe(false)
  expect(readdirSync(temporary)).toEqual([])
})

it('takes settings, keeps the data directory that is named, and shows its log', async () => {
  const home = join(temporaryFolder(), 'home')
  const nodes = join(temporaryFolder(), 'nodes.yaml')
  writeFileSync(nodes, 'nodes:\n  rover:\n    url: http://127.0.0.1:9\n')
  const lines: string[] = []
  const onLine = (line: string) => lines.push(line)
  const platform = await startPlatform({ home, onLine, env: { RUN_NODES_FILE: nodes, LOG_LEVEL: 'info' } })
  const client = createClient({ ...platform.addresses, ...(await platform.provisionAgent('scout')) })
  await expect(client.runs.run('atlas', 'Hello')).rejects.toMatchObject({ code: 'agent_not_found' })
  await client.close()
  await platform.stop()
  expect(lines.find((line) => line.includes('process.started'))).toBeDefined()
  expect(existsSync(join(home, 'secret-key'))).toBe(true)
  expect(readdirSync(join(home, 'run'))).toEqual([])
})

describe('a start that does not succeed leaves nothing, and says why', () => {
  it('a wrong setting: the fault first', async () => {
    const folder = ownTemporaryFolder()
    const error = await failureOf(startPlatform({ env: { MAIN_API_PORT: 'eighty' } }))
    expect(error.code).toBe('invalid_configuration')
    expect(error.message).toMatch(/^The platform did not start: .*\n?.*MAIN_API_PORT/)
    expect(readdirSync(folder)).toEqual([])
  })

  it('a data directory among the settings', async () => {
    const error = await failureOf(startPlatform({ env: { FLOTILLA_HOME: '/tmp' } }))
    expect([error.code, error.message]).toEqual([
      'invalid_option',
      'Name the data directory in `home`, not in `env.FLOTILLA_HOME`.',
    ])
  })

  it('a port that is taken: the fault, then the end of its log', async () => {
    const folder = ownTemporaryFolder()
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const port = String((server.address() as AddressInfo).port)
    const env = { MAIN_API_PORT: port, KAFKA_BROKER: 'mistyped' }
    const { message } = await failureOf(startPlatform({ env }))
    expect(message).toMatch(
      new RegExp(
        `^The platform did not start: .*${port}.*\\n[^]*The last lines of its log:\\n.*KAFKA_BROKER`,
      ),
    )
    expect(readdirSync(folder)).toEqual([])
  })

  it('a start that takes too long', async () => {
    const folder = ownTemporaryFolder()
    const error = await failureOf(startPlatform({ startMsMax: 1 }))
    expect([error.code, error.message]).toEqual([
      'start_timeout',
      'The platform was not ready within 1 ms: raise startMsMax.',
    ])
    expect(readdirSync(folder)).toEqual([])
  })

  it('a signal that was aborted before, while it starts, and later', async () => {
    const folder = ownTemporaryFolder()
    const reason = new Error('enough')
    await expect(startPlatform({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const during = new AbortController()
    const onLine = () => during.abort(reason)
    const start = startPlatform({ signal: during.signal, env: { LOG_LEVEL: 'info' }, onLine })
    await expect(start).rejects.toBe(reason)
    expect(readdirSync(folder)).toEqual([])

    const later = new AbortController()
    const platform = await startPlatform({ signal: later.signal })
    const pid = pidOf(platform)
    later.abort()
    await platform.stop()
    expect([isAlive(pid), readdirSync(folder)]).toEqual([false, []])
  })
})

describe('it ends with the process that started it', () => {
  /** A program that starts a platform, prints its process id, and goes on with `then`. */
  async function openCaller(then: string) {
    const folder = temporaryFolder()
    const code = `
      import { readFileSync } from 'node:fs'
      import { startPlatform } from 'flotilla'
      const { home } = await startPlatform()
      console.log(JSON.parse(readFileSync(home + '/run/addresses.json', 'utf8')).pid)
      ${then}`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      cwd: projectFolder,
      env: { ...process.env, TMPDIR: folder },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    const exited = once(child, 'exit')
    const [pid] = await once(createInterface({ input: child.stdout! }), 'line')
    return { child, exited, folder, pid: Number(pid) }
  }

  it('by kill -9', async () => {
    const { child, pid, folder } = await openCaller('setInterval(() => {}, 1_000)')
    child.kill('SIGKILL')
    await eventually('the platform ended', () => !isAlive(pid))
    expect(readdirSync(folder)).toEqual([])
  })

  it('at its end, which the platform does not hold up', async () => {
    const { exited, pid, folder } = await openCaller('')
    expect(await exited).toEqual([0, null])
    await eventually('the platform ended', () => !isAlive(pid))
    expect(readdirSync(folder)).toEqual([])
  })
})
