/** What operations that change something leave: one action each, however they end. */

import { Type } from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { type ChangeContext, noting } from '#operations/change.ts'
import type { OperatedPlatform } from '#operations/operation.ts'
import { listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { openControlPlane } from '../../support/control-plane.ts'
import { operating } from '../../support/operator.ts'
import { silentLog } from '../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

const args = Type.Object({ name: Type.String() })
let tried = 0

/** Runs a change of a target of its own, and resolves with how it ended and what it left. */
async function change(run: (context: ChangeContext) => Promise<string>, engine: Partial<Relational> = {}) {
  const target = `t${++tried}`
  const noted = noting<typeof args, string, never>(
    { action: 'thing.change', target: ({ name }) => name },
    run,
  )
  const engines = { relational: { ...relational, ...engine } }
  const platform = { engines, log: silentLog } as unknown as OperatedPlatform
  const context = { ...operating(platform), requestId: `req-${target}` }
  const [ended] = await Promise.allSettled([noted(context, { name: target })])
  const { actions } = await listAdminActions(relational, { limit: 10, target })
  return { ended, actions }
}

const fault = (code: 'conflict' | 'log_unavailable') => new AppError(code, 'no')

test('a change that is done is noted with who asked for it', async () => {
  const { ended, actions } = await change(async ({ describe }) => {
    describe({ before: { n: 1 } })
    describe({ after: { n: 2 }, count: 3 })
    return 'ok'
  })
  expect(ended).toMatchObject({ value: 'ok' })
  expect(actions).toMatchObject([
    {
      actor: { kind: 'command_line', id: 'tester' },
      action: 'thing.change',
      outcome: 'done',
      before: { n: 1 },
      after: { n: 2 },
      count: 3,
      request_id: expect.stringMatching(/^req-t/),
    },
  ])
})

test.each([
  [fault('conflict'), 'refused', 'conflict'],
  [fault('log_unavailable'), 'failed', 'log_unavailable'],
  [new Error('a fault'), 'failed', 'internal_error'],
] as const)('%s is noted as %s', async (error, outcome, reason) => {
  const { ended, actions } = await change(async ({ describe }) => {
    describe({ count: 1 })
    throw error
  })
  expect(ended).toMatchObject({ reason: error })
  expect(actions).toMatchObject([{ outcome, reason, count: 1 }])
})

test('a committed change stays done when a later step fails', async () => {
  const { actions } = await change(async ({ note }) => {
    await relational.transaction((tx) => note(tx, { after: 'committed' }))
    throw fault('log_unavailable')
  })
  expect(actions).toMatchObject([{ outcome: 'done', after: 'committed', reason: null }])
})

test('a change that was rolled back is noted as failed', async () => {
  const { actions } = await change(async ({ note }) =>
    relational.transaction(async (tx) => {
      await note(tx, { after: 'never' })
      throw fault('conflict')
    }),
  )
  expect(actions).toMatchObject([{ outcome: 'refused', reason: 'conflict', after: null }])
})

test('nothing is changed while nothing could be noted', async () => {
  let ran = false
  const away = new AppError('relational_engine_unavailable', 'away')
  const run = async (_: ChangeContext) => {
    ran = true
    return 'ok'
  }
  const { ended, actions } = await change(run, { ping: () => Promise.reject(away) })
  expect(ended).toMatchObject({ reason: away })
  expect(ran).toBe(false)
  expect(actions).toEqual([])
})

test('a change that is done is noted as soon as the database is back', async () => {
  let refusals = 3
  const { ended, actions } = await change(async () => 'ok', {
    transaction: (work) =>
      refusals-- > 0
        ? Promise.reject(new AppError('relational_engine_unavailable', 'away'))
        : relational.transaction(work),
  })
  expect(ended).toMatchObject({ value: 'ok' })
  expect(actions).toMatchObject([{ outcome: 'done' }])
})
