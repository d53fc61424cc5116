/** A request with an Idempotency-Key runs once, whatever repeats it. */

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { type Answer, type Attempt, idOfSeed, withIdempotency } from '#services/access/idempotency.ts'
import { migrationFolders } from '#services/migrations.ts'
import { openEmptyRelational, silentLog } from '../../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.idempotency_keys'))

const created: Answer = {
  statusCode: 202,
  body: '{"operation_id":"1"}',
}

function ask(
  work: (attempt: Attempt) => Promise<Answer>,
  {
    scope = 'whale/upsert',
    key = 'k',
    body = 'body',
    waitMs = 0,
  }: { scope?: string; key?: string; body?: string; waitMs?: number } = {},
) {
  const bodyHash = createHash('sha256').update(body).digest()
  return withIdempotency(relational, { scope, key, bodyHash, log: silentLog, waitMs }, work)
}
const answers = (answer: Answer) => async () => answer
const never = async (): Promise<Answer> => {
  throw new Error('must not run')
}
const age = (column: 'created_at' | 'started_at', interval: string) =>
  relational.query(`update platform.idempotency_keys set ${column} = now() - interval '${interval}'`)

test('a repeated request gets the first answer again, without the work', async () => {
  expect(await ask(answers(created))).toEqual({ ...created, replayed: false })
  expect(await ask(never)).toEqual({ ...created, replayed: true })
  expect(await ask(never)).toEqual({ ...created, replayed: true })
})

test('the same key with another body is refused, finished or not', async () => {
  await ask(answers(created))
  await expect(ask(never, { body: 'another' })).rejects.toMatchObject({
    code: 'idempotency_conflict',
    statusCode: 409,
  })
})

test('keys of different scopes never meet', async () => {
  await ask(answers(created))
  const other = { ...created, body: 'other' }
  expect(await ask(answers(other), { scope: 'pulse/upsert' })).toEqual({ ...other, replayed: false })
  expect(await ask(answers(other), { key: 'k2' })).toEqual({ ...other, replayed: false })
})

test('while the first is running the second is refused, with a wait', async () => {
  const goOn = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const first = ask(async () => {
    begun.resolve()
    await goOn.promise
    return created
  })
  await begun.promise
  await expect(ask(never)).rejects.toMatchObject({
    code: 'idempotency_in_progress',
    statusCode: 409,
    retryAfter: 1,
  })
  await expect(ask(never, { body: 'another' })).rejects.toMatchObject({ code: 'idempotency_conflict' })
  goOn.resolve()
  await first
  expect(await ask(never)).toEqual({ ...created, replayed: true })
})

test('of many at once exactly one runs', async () => {
  let runs = 0
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, () =>
      ask(async () => {
        runs++
        return created
      }),
    ),
  )
  expect(runs).toBe(1)
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'idempotency_in_progress' })
    else expect(result.value).toMatchObject(created)
  }
})

test('one that may wait gets the answer of the first, and only as long as it may', async () => {
  const goOn = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const first = ask(async () => {
    begun.resolve()
    await goOn.promise
    return created
  })
  await begun.promise
  await expect(ask(never, { waitMs: 100 })).rejects.toMatchObject({ code: 'idempotency_in_progress' })
  const waiting = Promise.all([ask(never, { waitMs: 30_000 }), ask(never, { waitMs: 30_000 })])
  await expect(ask(never, { body: 'another', waitMs: 30_000 })).rejects.toMatchObject({
    code: 'idempotency_conflict',
  })
  goOn.resolve()
  expect(await first).toEqual({ ...created, replayed: false })
  expect(await waiting).toEqual(Array.from({ length: 2 }, () => ({ ...created, replayed: true })))
})

test('one that waits does the work itself when the first one fails', async () => {
  const fails = Promise.withResolvers<Answer>()
  const seeds: string[] = []
  const first = ask(({ seed }) => {
    seeds.push(seed)
    return fails.promise
  })
  await expect.poll(() => seeds.length).toBe(1)
  const second = ask(
    async ({ seed }) => {
      seeds.push(seed)
      return created
    },
    { waitMs: 30_000 },
  )
  fails.reject(new AppError('log_unavailable', 'The event log does not answer.'))
  await expect(first).rejects.toMatchObject({ code: 'log_unavailable' })
  expect(await second).toEqual({ ...created, replayed: false })
  expect(seeds[1]).toBe(seeds[0])
})

test('one that is pending for over a minute lost its process: it runs again with the same seed', async () => {
  const seeds: string[] = []
  const lost = Promise.withResolvers<Answer>()
  const first = ask(({ seed }) => {
    seeds.push(seed)
    return lost.promise
  })
  await expect.poll(() => seeds.length).toBe(1)
  await age('started_at', '59 seconds')
  await expect(ask(never)).rejects.toMatchObject({ code: 'idempotency_in_progress' })
  await age('started_at', '61 seconds')
  const second = await ask(async ({ seed, attempt }) => {
    seeds.push(seed)
    expect(attempt).toBe(2)
    return created
  })
  expect(second.replayed).toBe(false)
  expect(seeds[0]).toBe(seeds[1])
  // The first was not dead after all: its late answer does not replace the stored one.
  lost.resolve({ ...created, body: 'late' })
  await first
  expect(await ask(never)).toEqual({ ...created, replayed: true })
})

test('work that throws is not kept, its error is thrown, and the next one runs with the same seed', async () => {
  const fault = new AppError('log_unavailable', 'The event log does not answer.')
  const seeds: string[] = []
  await expect(
    ask(async ({ seed }) => {
      seeds.push(seed)
      throw fault
    }),
  ).rejects.toBe(fault)
  const again = await ask(async ({ seed }) => {
    seeds.push(seed)
    return created
  })
  expect(again).toEqual({ ...created, replayed: false })
  expect(seeds[0]).toBe(seeds[1])
})

test('after 24 hours the key is as new: another body, another seed', async () => {
  let first = ''
  await ask(async ({ seed }) => {
    first = seed
    return created
  })
  await age('created_at', '23 hours 59 minutes')
  expect((await ask(never)).replayed).toBe(true)
  await age('created_at', '24 hours 1 minute')
  await ask(
    async ({ seed }) => {
      expect(seed).not.toBe(first)
      return created
    },
    { body: 'another' },
  )
})

test('outlived rows are cleared away by later requests', async () => {
  await ask(answers(created), { key: 'old' })
  await age('created_at', '3 days')
  await ask(answers(created), { key: 'new' })
  expect((await relational.query('select key from platform.idempotency_keys')).rows).toEqual([{ key: 'new' }])
})

test('when the database goes away during the work, the answer is given all the same', async () => {
  let away = false
  const flaky: Relational = {
    ...relational,
    async query<Row>(text: string, params?: Parameters<Relational['query']>[1]) {
      if (away) throw new AppError('relational_engine_unavailable', 'The relational engine does not answer.')
      return relational.query<Row>(text, params)
    },
  }
  const bodyHash = createHash('sha256').update('b').digest()
  const answer = await withIdempotency(
    flaky,
    { scope: 's', key: 'k', bodyHash, log: silentLog },
    async () => {
      away = true
      return created
    },
  )
  expect(answer).toEqual({ ...created, replayed: false })
})

test('ids of a seed are UUIDs, the same for the same purpose and different for another', () => {
  expect(idOfSeed('s', 'a')).toBe(idOfSeed('s', 'a'))
  expect(idOfSeed('s', 'a')).not.toBe(idOfSeed('s', 'b'))
  expect(idOfSeed('s', 'a')).not.toBe(idOfSeed('t', 'a'))
  expect(idOfSeed('s', 'a')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
