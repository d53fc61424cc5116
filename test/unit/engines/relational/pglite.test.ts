/** The embedded Postgres beyond the contract: its thread, its deaths and its time limits. */

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { createSupervisor, openPglite } from '#engines/relational/pglite.ts'
import { eventually } from '../../../support/eventually.ts'
import { copyCluster, openTestRelational, silentLog } from '../../../support/relational.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

test('rows are there after a close and a new open', async () => {
  const directory = await copyCluster(temporaryFolder())
  const first = await openPglite({ directory, log: silentLog })
  await first.query(`create table t (n int); insert into t values (7)`)
  await first.close()
  const second = await openPglite({ directory, log: silentLog })
  onTestFinished(() => second.close())
  expect((await second.query('select n from t')).rows).toEqual([{ n: 7 }])
})

const soon = () => Date.now() + 60_000

/** The thread itself, for what depends on times: the port's own time-outs must not meddle. */
async function openThread(transactionMsMax: number) {
  const directory = await copyCluster(temporaryFolder())
  const supervisor = createSupervisor({ directory, transactionMsMax }, silentLog)
  onTestFinished(() => supervisor.close())
  const { call } = supervisor.get()
  await call.query('create table t (n int)', undefined, soon())
  return { call }
}

test('a transaction that is open for too long is rolled back, and all others go on', async () => {
  const { call } = await openThread(300)
  const id = await call.begin(soon())
  await call.within(id, 'insert into t values (1)', undefined).catch(() => {})
  // Waits behind the transaction, until that is given up.
  expect((await call.query('select * from t', undefined, soon())).rows).toEqual([])
  const refused = { code: 'relational_engine_unavailable' }
  await expect(call.within(id, 'insert into t values (2)', undefined)).rejects.toMatchObject(refused)
  await expect(call.end(id, 'commit')).rejects.toMatchObject(refused)
  expect(await call.end(id, 'rollback')).toBe('ROLLBACK')
})

test('a statement whose turn comes too late is never begun', async () => {
  const { call } = await openThread(60_000)
  const id = await call.begin(soon())
  const late = call
    .query('insert into t values (1)', undefined, Date.now() + 50)
    .catch((error: unknown) => error)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await call.end(id, 'commit')
  expect(await late).toMatchObject({ code: 'relational_engine_unavailable' })
  expect((await call.query('select * from t', undefined, soon())).rows).toEqual([])
})

test('a caller does not wait longer than the time-out for a statement', async () => {
  const directory = await copyCluster(temporaryFolder())
  const relational = await openPglite({ directory, log: silentLog, statementTimeoutMs: 200 })
  onTestFinished(() => relational.close())
  await expect(relational.query('select count(*) from generate_series(1, 3000000)')).rejects.toMatchObject({
    code: 'relational_engine_unavailable',
  })
})

test('more callers than the bound are refused, not queued', async () => {
  const relational = await openTestRelational()
  const results = await Promise.allSettled(Array.from({ length: 1_500 }, () => relational.query('select 1')))
  const refused = results.filter((result) => result.status === 'rejected')
  expect(refused.length).toBeGreaterThanOrEqual(500)
  for (const { reason } of refused) expect(reason).toMatchObject({ code: 'overloaded' })
  await relational.ping()
})

test('a long statement does not hold up this thread', async () => {
  const relational = await openTestRelational()
  let turns = 0
  const timer = setInterval(() => turns++, 5)
  onTestFinished(() => clearInterval(timer))
  await relational.query('select count(*) from generate_series(1, 2000000)')
  expect(turns).toBeGreaterThan(2)
})

test('an unusable folder is a clear fault', async () => {
  const directory = `${temporaryFolder()}/postgres`
  mkdirSync(directory)
  writeFileSync(`${directory}/PG_VERSION`, 'nonsense')
  await expect(openPglite({ directory, log: silentLog })).rejects.toMatchObject({
    code: 'relational_engine_unavailable',
  })
})

test('a thread that died is started again, and its listeners are notified again', async () => {
  const directory = await copyCluster(temporaryFolder())
  const supervisor = createSupervisor({ directory, transactionMsMax: 30_000 }, silentLog)
  onTestFinished(() => supervisor.close())
  const payloads: string[] = []
  await supervisor.listen('news', (payload) => payloads.push(payload))
  await supervisor.get().call.query('create table t (n int); insert into t values (1)', undefined, soon())
  const cut = supervisor
    .get()
    .call.query('select count(*) from generate_series(1, 3000000)', undefined, soon())
  const fault = cut.catch((error: unknown) => error)
  await supervisor.get().terminate()
  expect(await fault).toMatchObject({ code: 'relational_engine_unavailable' })
  const rows = await eventually('back', async () => {
    return (await supervisor.get().call.query('select n from t', undefined, soon())).rows
  })
  expect(rows).toEqual([['1']])
  await supervisor.get().call.query(`notify news, 'again'`, undefined, soon())
  await eventually('notified', () => payloads.includes('again'))
})

test('kill -9 in the middle of writing loses no row that was acknowledged', async () => {
  const directory = await copyCluster(temporaryFolder())
  const writer = fileURLToPath(new URL('../../../support/pglite-writer.ts', import.meta.url))
  const child = spawn(process.execPath, [writer, directory], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk) => {
    printed += chunk
  })
  const acknowledged = () => Number(printed.trimEnd().split('\n').at(-1) ?? 0)
  await eventually('rows are written', () => acknowledged() > 200, 60_000)
  child.kill('SIGKILL')
  await once(child, 'close')
  const relational = await openPglite({ directory, log: silentLog })
  onTestFinished(() => relational.close())
  const { rows } = await relational.query<{ n: number; last: number }>(
    'select count(*) as n, max(n) as last from written',
  )
  expect(rows[0]!.last).toBeGreaterThanOrEqual(acknowledged())
  expect(rows[0]!.n).toBe(rows[0]!.last)
})

test('its log on disk is cut while it runs, also when it is never closed', async () => {
  const directory = await copyCluster(temporaryFolder())
  const relational = await openPglite({ directory, log: silentLog })
  onTestFinished(() => relational.close())
  await relational.query('create table t (line text)')
  const rows = Array.from({ length: 10_000 }, () => [randomBytes(960).toString('hex')])
  for (let copied = 0; copied < 4; copied++) {
    await relational.transaction((tx) => tx.copy('t', [{ name: 'line', type: 'text' }], rows))
  }
  await relational.query('select 1')
  const names = readdirSync(join(directory, 'pg_wal'), { withFileTypes: true }).filter((one) => one.isFile())
  const bytes = names.map(({ name }) => statSync(join(directory, 'pg_wal', name)).size)
  // The copied text is twice as large.
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(50_000_000)
}, 120_000)
