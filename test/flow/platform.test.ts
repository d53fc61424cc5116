/** Starting and stopping the platform as an operator does. */

import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { runFlotilla, spawnFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { temporaryFolder } from '../support/temporary.ts'

describe('flotilla start', () => {
  it('says where it listens, then ready; a second one is refused; SIGTERM ends it with 0', async () => {
    const home = join(temporaryFolder(), 'home')
    const platform = await startFlotilla(home)
    const { vector_url, webhook_url, pid } = platform.addresses
    expect(platform.stdout()).toBe(`vector_url ${vector_url}\nwebhook_url ${webhook_url}\nready\n`)
    expect(pid).toBe(platform.child.pid)
    expect(statSync(home).mode & 0o777).toBe(0o700)
    expect((await fetch(`${vector_url}/readyz`)).status).toBe(200)
    expect((await fetch(`${vector_url}/v1/health`)).status).toBe(200)
    expect((await fetch(`${webhook_url}/health`)).status).toBe(200)

    const second = await runFlotilla(['start'], { FLOTILLA_HOME: home, VECTOR_GATEWAY_PORT: '0' })
    expect(second.code).toBe(1)
    expect(second.stderr).toContain(`the running process ${pid}`)
    expect(existsSync(join(home, 'run', 'addresses.json'))).toBe(true)

    platform.child.kill('SIGTERM')
    platform.child.kill('SIGTERM')
    expect((await platform.finished).code).toBe(0)
    expect(existsSync(join(home, 'run', 'addresses.json'))).toBe(false)
    expect(existsSync(join(home, 'run', 'control.json'))).toBe(false)
  }, 240_000)

  it('stops when the launcher that started it was killed', async () => {
    const home = temporaryFolder()
    const platform = await startFlotilla(home, { ipc: true, env: { FLOTILLA_LAUNCHED: '1' } })
    platform.child.disconnect()
    expect((await platform.finished).code).toBe(0)
  }, 240_000)

  it('leaves an address file behind when killed, which then counts for nothing', async () => {
    const home = temporaryFolder()
    const platform = await startFlotilla(home)
    platform.child.kill('SIGKILL')
    await platform.finished
    expect(readFileSync(join(home, 'run', 'addresses.json'), 'utf8')).toContain('vector_url')
    const tour = await runFlotilla(['tour'], { FLOTILLA_HOME: home })
    expect(tour.code).toBe(1)
    expect(tour.stderr).toContain('npm start')
  }, 240_000)

  it('is stopped while it waits for an engine that is away', async () => {
    const home = temporaryFolder()
    const env = {
      FLOTILLA_HOME: home,
      DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none',
      VECTOR_GATEWAY_PORT: '0',
    }
    const waiting = spawnFlotilla(['start'], env)
    await eventually('it waits', () => waiting.stderr().includes('start.waiting'), 30_000)
    waiting.child.kill('SIGTERM')
    expect((await waiting.finished).code).toBe(0)
    expect(waiting.stdout()).toBe('')
  }, 60_000)

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
      AUDIT_RETENTION_DAYS: '-1',
    })
    expect(faulty.code).toBe(1)
    expect(faulty.stderr).toContain('VECTOR_GATEWAY_PORT')
    expect(faulty.stderr).toContain('AUDIT_RETENTION_DAYS')
    expect(existsSync(home)).toBe(false)
  }, 120_000)
})
