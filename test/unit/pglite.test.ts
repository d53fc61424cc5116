import { mkdirSync, writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { openPglite } from '#engines/relational/pglite.ts'
import { eventually } from '../support/eventually.ts'
import { copyCluster, openTestRelational, silentLog } from '../support/relational.ts'
import { temporaryFolder } from '../support/temporary.ts'

test('rows are there after a close and a new open', async () => {
  const directory = await copyCluster(temporaryFolder())
  const first = await openPglite({ directory, log: silentLog })
  await first.query(`create table t (n int); insert into t values (7)`)
  await first.close()
  const second = await openPglite({ directory, log: silentLog })
  onTestFinished(() => second.close())
  expect((await second.query('select n from t')).rows).toEqual([{ n: 7 }])
})

test('a transaction that is open for too long is rolled back, and everybody else goes on', async () => {
  const relational = await openTestRelational({ statementTimeoutMs: 1_500 })
  await relational.query('create table t (n int)')
  const goOn = Promise.withResolvers<void>()
  const slow = relational.transaction(async (tx) => {
    await tx.query('insert into t values (1)')
    await goOn.promise
    await tx.query('insert into t values (2)')
  })
  const refused = slow.catch((error: unknown) => error)
  await eventually('others go on', async () => (await relational.query('select 1')).rowCount === 1)
  goOn.resolve()
  expect(await refused).toMatchObject({ code: 'relational_engine_unavailable' })
  expect((await relational.query('select * from t')).rows).toEqual([])
})

test('a statement whose turn comes too late is never begun', async () => {
  const relational = await openTestRelational({ statementTimeoutMs: 1_500 })
  await relational.query('create table t (n int)')
  const goOn = Promise.withResolvers<void>()
  const blocking = relational.transaction(async () => goOn.promise).catch(() => {})
  const late = relational.query('insert into t values (1)').catch((error: unknown) => error)
  expect(await late).toMatchObject({ code: 'relational_engine_unavailable' })
  goOn.resolve()
  await blocking
  expect((await relational.query('select * from t')).rows).toEqual([])
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
