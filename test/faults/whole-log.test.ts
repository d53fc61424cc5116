/** The whole platform under random faults, against a model. test/long/whole-log.test.ts runs many seeds of the same. */

import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { findQdrant } from '../../scripts/servers/qdrant.ts'
import { figuresOf, reportOf, runWholePlatform } from '../support/whole-run.ts'
import { scheduleOf } from '../support/whole-schedule.ts'

/** CI tries the same faults in every run, some of each kind; elsewhere each run tries others. */
const seedOfCi = 3_483
const newSeed = () => (process.env.CI === undefined ? randomInt(1, 1e6) : seedOfCi)
const seed = Number(process.env.FLOTILLA_SEED ?? newSeed())
const faultsMs = 30_000

test('log, index and mirror hold the last acknowledged value of every key, and no read was older', {
  timeout: 400_000,
}, async () => {
  console.error(`FLOTILLA_SEED=${seed}`)
  const engine = findQdrant() === null ? 'embedded' : 'qdrant'
  const run = { seed, engine, schedule: scheduleOf(seed, faultsMs), quietMsMax: 200_000 } as const
  const outcome = await runWholePlatform(run)
  console.error(JSON.stringify(figuresOf(outcome)))
  expect(outcome.faults, reportOf(run, outcome)).toEqual([])
})
