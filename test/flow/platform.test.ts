/** Starting and stopping the platform as an operator does. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isAlive } from '#runtime/start/addresses.ts'
import { anyPorts } from '#test/support/any-ports.ts'
import { eventually } from '../support/eventually.ts'
import { runFlotilla, spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { temporaryFolder } from '../support/temporary.ts'

describe('flotilla start', () => {
  it('says where it listens, then ready; a second one is refused; SIGTERM ends it with 0', async () => {
    const home = join(temporaryFolder(), 'home')
    const platform = await startFlotilla(home)
    const { vector_url, base_url, hub_url, agent_gateway_url, webhook_url, pid } = platform.addresses
    const exchange = `${base_url}/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken`
    expect(platform.addresses.identity_exchange_url).toBe(exchange)
    const password = join(home, 'admin-password')
    await eventually('the line of the console', () => platform.stdout().includes(password))
    expect(platform.stdout()).toBe(
      `vector_url ${vector_url}\nbase_url ${base_url}\nidentity_exchange_url ${exchange}\n` +
        `hub_url ${hub_url}\nagent_gateway_url ${agent_gateway_url}\nwebhook_url ${webhook_url}\nready\n` +
        `console ${base_url}/console/\nfirst admin admin@localhost, one-time password in ${password}\n`,
    )
    expect(pid).toBe(platform.child.pid)
    expect(statSync(home).mode & 0o777).toBe(0o700)
    expect((await fetch(`${vector_url}/readyz`)).status).toBe(200)
    expect((await fetch(`${vector_url}/v1/health`)).status).toBe(200)
    expect((await fetch(`${webhook_url}/health`)).status).toBe(200)

    const second = await runFlotilla(['start'], {
      FLOTILLA_HOME: home,
      VECTOR_GATEWAY_PORT: '0',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
    })
    expect(second.code).toBe(1)
    expect(second.stderr).toContain(`the running process ${pid}`)
    expect(existsSync(join(home, 'run', 'addresses.json'))).toBe(true)

    platform.child.kill('SIGTERM')
    platform.child.kill('SIGTERM')
    expect((await platform.finished).code).toBe(0)
    expect(existsSync(join(home, 'run', 'addresses.json'))).toBe(false)
    expect(existsSync(join(home, 'run', 'control.json'))).toBe(false)
  }, 240_000)

  it.runIf(process.platform === 'linux')(
    'begins with settings that keep its memory small',
    async () => {
      const platform = await startFlotilla(temporaryFolder(), {
        launcher: true,
        env: { MALLOC_TRIM_THRESHOLD_: '65536', NODE_OPTIONS: '--trace-uncaught' },
      })
      const { pid } = platform.addresses
      expect(pid).toBe(platform.child.pid)
      const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
      expect(variables).toContain('MALLOC_ARENA_MAX=2')
      expect(variables).toContain('MALLOC_TRIM_THRESHOLD_=65536')
      expect(variables).toContain('NODE_OPTIONS=--max-semi-space-size=8 --trace-uncaught')
      expect(platform.stderr()).toBe('')
      platform.child.kill('SIGTERM')
      expect((await platform.finished).code).toBe(0)
    },
    240_000,
  )

  it('--temporary removes the data directory at the end, and refuses one that has files', async () => {
    const home = join(temporaryFolder(), 'home')
    const env = { ...anyPorts, FLOTILLA_HOME: home, LOG_LEVEL: 'warn' }
    const platform = spawnFlotilla(['start', '--temporary'], env)
    await eventually('it is ready', () => /^ready$/m.test(platform.stdout()))
    const second = await runFlotilla(['start', '--temporary'], env)
    expect(second.stderr).toContain(`the running process ${platform.child.pid}`)
    expect(existsSync(home)).toBe(true)
    platform.child.kill('SIGTERM')
    expect((await platform.finished).code).toBe(0)
    expect(existsSync(home)).toBe(false)

    const failed = await runFlotilla(['start', '--temporary'], { ...env, LOG_LEVEL: 'loud' })
    expect([failed.code, existsSync(home)]).toEqual([1, false])

    const kept = temporaryFolder()
    writeFileSync(join(kept, 'letter.txt'), 'Dear fleet')
    const refused = await runFlotilla(['start', '--temporary'], { ...env, FLOTILLA_HOME: kept })
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain(`would remove ${kept} at the end`)
    expect(readFileSync(join(kept, 'letter.txt'), 'utf8')).toBe('Dear fleet')
  }, 240_000)

  it('stops when the channel to its launcher was closed before it listened', async () => {
    const env = { ...anyPorts, FLOTILLA_HOME: temporaryFolder(), FLOTILLA_LAUNCHED: '1' }
    const platform = spawnFlotilla(['start'], env, { ipc: true })
    platform.child.disconnect()
    expect((await platform.finished).code).toBe(0)
  }, 240_000)

  it('stops when the launcher that started it was killed', async () => {
    const home = temporaryFolder()
    const platform = await startFlotilla(home, { ipc: true, env: { FLOTILLA_LAUNCHED: '1' } })
    platform.child.disconnect()
    expect((await platform.finished).code).toBe(0)
  }, 240_000)

  it('leaves an address file behind when killed, which counts for nothing until the next start says so', async () => {
    const home = temporaryFolder()
    const platform = await startFlotilla(home)
    platform.child.kill('SIGKILL')
    await platform.finished
    const left = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8'))
    expect(left).toHaveProperty('vector_url')
    const tour = await runFlotilla(['tour'], { FLOTILLA_HOME: home })
    expect(tour.code).toBe(1)
    expect(tour.stderr).toContain('npx flotilla start')
    const again = await startFlotilla(home, { env: { LOG_LEVEL: 'info' } })
    const line = `"killed":${left.pid},"msg":"process.recovered-after-unclean-stop"`
    await eventually('it says so', () => again.stderr().includes(line))
    again.child.kill('SIGTERM')
    expect((await again.finished).code).toBe(0)
  }, 240_000)

  it('is stopped while it waits for an engine that is away', async () => {
    const home = temporaryFolder()
    const env = { ...anyPorts, FLOTILLA_HOME: home, DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none' }
    const waiting = spawnFlotilla(['start'], env)
    await eventually('it waits', () => waiting.stderr().includes('start.waiting'))
    waiting.child.kill('SIGTERM')
    expect((await waiting.finished).code).toBe(0)
    expect(waiting.stdout()).toBe('')
  }, 120_000)

  it('refuses services that would share an embedded engine, naming the variables', async () => {
    const alone = await runFlotilla(['start', 'vector-writer'], { FLOTILLA_HOME: temporaryFolder() })
    expect(alone.code).toBe(1)
    for (const variable of ['KAFKA_BROKERS', 'QDRANT_URL', 'DATABASE_URL']) {
      expect(alone.stderr).toContain(variable)
    }
  })

  it('refuses what it does not understand before it opens anything', async () => {
    const home = join(temporaryFolder(), 'never-made')
    const unknown = await runFlotilla(['start', 'vector-gatway'], { FLOTILLA_HOME: home })
    expect(unknown.code).toBe(2)
    expect(unknown.stderr).toContain('vector-gateway')
    const faulty = await runFlotilla(['start'], {
      FLOTILLA_HOME: home,
      VECTOR_GATEWAY_PORT: 'eighty',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
      AUDIT_RETENTION_DAYS: '-1',
    })
    expect(faulty.code).toBe(1)
    expect(faulty.stderr).toContain('VECTOR_GATEWAY_PORT')
    expect(faulty.stderr).toContain('AUDIT_RETENTION_DAYS')
    expect(existsSync(home)).toBe(false)
  }, 120_000)

  it('names all that is wrong in one message: values, what belongs together, the targets file, the folder', async () => {
    const folder = temporaryFolder()
    const targets = join(folder, 'targets.yaml')
    writeFileSync(targets, 'targets: 7\n')
    const faulty = await runFlotilla(['start'], {
      FLOTILLA_HOME: targets,
      WEBHOOK_TARGETS_FILE: targets,
      LOG_LEVEL: 'loud',
      TRUSTED_PROXIES: '10.0.0.0/40',
      WEBHOOK_GATEWAY: 'relay.example:9090',
      QDRANT_URL: 'somewhere',
      KAFKA_USERNAME: 'someone',
      KAFKA_BROKER: 'log:9092',
    })
    expect(faulty.code).toBe(1)
    const variables = ['LOG_LEVEL', 'TRUSTED_PROXIES', 'WEBHOOK_GATEWAY', 'QDRANT_URL', 'KAFKA_PASSWORD']
    for (const name of [...variables, 'targets must be a map', 'FLOTILLA_HOME']) {
      expect(faulty.stderr).toContain(name)
    }
    expect(faulty.stderr).not.toContain('internal_error')
  }, 120_000)

  it('takes its ports before it opens anything, and names those that are taken', async () => {
    const home = join(temporaryFolder(), 'never-made')
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const refused = await runFlotilla(['start'], {
      FLOTILLA_HOME: home,
      VECTOR_GATEWAY_PORT: String(port),
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: `127.0.0.1:${port}`,
      KAFKA_BROKER: 'log:9092',
    })
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('did you mean KAFKA_BROKERS')
    expect(refused.stderr).toMatch(
      new RegExp(`${port}.*VECTOR_GATEWAY_PORT or HOST[^]*${port}.*WEBHOOK_GATEWAY`),
    )
    expect(existsSync(home)).toBe(false)
  }, 120_000)

  it('ends with npm when npm is ended', async () => {
    const home = temporaryFolder()
    const npm = spawn('npm', ['start'], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        FLOTILLA_HOME: home,
        // It waits for an engine that is away: that takes less time than a start.
        DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none',
        VECTOR_GATEWAY_PORT: '0',
        MAIN_API_PORT: '0',
        HUB_PORT: '0',
        RUN_GATEWAY_PORT: '0',
        WEBHOOK_GATEWAY: '127.0.0.1:0',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let log = ''
    npm.stderr.on('data', (chunk) => {
      log += chunk
    })
    await eventually('it waits', () => log.includes('start.waiting'), 60_000)
    const platform = Number(readFileSync(join(home, 'owner.pid'), 'utf8'))
    onTestFinished(() => void (isAlive(platform) && process.kill(platform, 'SIGKILL')))
    expect(isAlive(platform)).toBe(true)
    npm.kill('SIGTERM')
    await eventually('the platform has ended', () => !isAlive(platform))
  }, 120_000)
})
