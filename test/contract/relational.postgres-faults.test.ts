/** The Postgres driver when the server or the connection fails. */

import { createServer, type Server, type Socket, connect as tcpConnect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { sqlState } from '#engines/relational/port.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'

async function open(
  url: string,
  options: { poolMax?: number; statementTimeoutMs?: number } = {},
): Promise<Relational> {
  const relational = await openPostgres({ url, log: silentLog, ...options })
  onTestFinished(() => relational.close())
  return relational
}

/** A way to the server that can be cut and mended. */
async function openGate(target: URL): Promise<{ url: string; cut(): void; restore(): Promise<void> }> {
  const sockets = new Set<Socket>()
  let server: Server | undefined
  let port = 0
  const restore = () =>
    new Promise<void>((resolve) => {
      server = createServer((incoming) => {
        const outgoing = tcpConnect(Number(target.port), target.hostname)
        for (const [from, to] of [
          [incoming, outgoing],
          [outgoing, incoming],
        ] as const) {
          sockets.add(from)
          from.on('error', () => {})
          from.on('close', () => to.destroy())
          from.pipe(to)
        }
      }).listen(port, '127.0.0.1', () => {
        port = (server!.address() as { port: number }).port
        resolve()
      })
    })
  const cut = () => {
    server?.close()
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  onTestFinished(cut)
  await restore()
  const url = new URL(target)
  url.host = `127.0.0.1:${port}`
  return { url: url.href, cut, restore }
}

test('it opens while the server is away, says so, and goes on by itself when it is back', async () => {
  const gate = await openGate(new URL(await databaseUrl()))
  gate.cut()
  const relational = await open(gate.url)
  const fault = await relational.query('select 1').catch((error: unknown) => error)
  expect(fault).toMatchObject({ code: 'relational_engine_unavailable', statusCode: 503, retryAfter: 1 })
  await expect(relational.ping(500)).rejects.toMatchObject({ code: 'relational_engine_unavailable' })
  await gate.restore()
  await relational.ping()
  gate.cut()
  await expect(relational.query('select 1')).rejects.toMatchObject({ code: 'relational_engine_unavailable' })
  await gate.restore()
  expect((await relational.query('select 1 as n')).rows).toEqual([{ n: 1 }])
})

test('faults never show the password of the connection', async () => {
  const url = new URL(await databaseUrl())
  url.password = 'very-secret-word'
  url.port = '1'
  const relational = await open(url.href)
  const fault = (await relational.query('select 1').catch((error: unknown) => error)) as Error
  expect(`${fault.message} ${String(fault.cause)}`).not.toContain('very-secret-word')
})

test('a connection that breaks in the middle of a transaction fails it, keeps nothing and ends nothing else', async () => {
  const url = await databaseUrl()
  const relational = await open(url)
  const other = await open(url)
  await relational.query('create table t (n int)')
  const fault = await relational
    .transaction(async (tx) => {
      await tx.query('insert into t values (1)')
      const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
      await other.query('select pg_terminate_backend($1)', [rows[0]!.pid])
      // The connection breaks while it is idle.
      await new Promise((resolve) => setTimeout(resolve, 200))
      await tx.query('insert into t values (2)')
    })
    .catch((error: unknown) => error)
  expect(fault).toMatchObject({ code: 'relational_engine_unavailable' })
  expect((await relational.query('select * from t')).rows).toEqual([])
})

test('the server ends a statement that takes too long, with its SQLSTATE', async () => {
  const relational = await open(await databaseUrl(), { statementTimeoutMs: 200 })
  const fault = await relational.query('select pg_sleep(5)').catch((error: unknown) => error)
  expect(sqlState(fault)).toBe('57014')
  await relational.ping()
})

test('a full pool lets callers wait, not fail', async () => {
  const relational = await open(await databaseUrl(), { poolMax: 2 })
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => relational.query('select pg_sleep(0.01)')),
  )
  expect(answers).toHaveLength(50)
})

test('listeners are notified again after the connection was lost', async () => {
  const gate = await openGate(new URL(await databaseUrl()))
  const relational = await open(gate.url)
  const payloads: string[] = []
  await relational.listen('news', (payload) => payloads.push(payload))
  gate.cut()
  await gate.restore()
  await eventually('notified again', async () => {
    await relational.query(`notify news, 'again'`).catch(() => {})
    return payloads.includes('again')
  })
})
