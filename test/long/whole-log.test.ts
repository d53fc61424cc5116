/** The whole platform under random faults, against a model: one seed after the other for as long as is asked for. */

import { expect, test } from 'vitest'
import { findQdrant } from '../../scripts/servers/qdrant.ts'
import { addFigures, type Figures, figuresOf, reportOf, runWholePlatform } from '../support/whole-run.ts'
import { scheduleOf } from '../support/whole-schedule.ts'

const minutes = Number(process.env.FLOTILLA_MINUTES ?? 10)
const firstSeed = Number(process.env.FLOTILLA_SEED ?? Math.floor(Math.random() * 1e6))
const faultsMs = 60_000
/** Every so many seeds one runs on the embedded index, in one process: a seed alone gives the same run again. */
const embeddedEvery = 4
/** Far more than the groups need to read everything when the faults are over, also on a busy machine. */
const quietMsMax = 300_000

test('with every seed log, index and mirror hold the last acknowledged values, and no read was older', {
  timeout: minutes * 60_000 + 1_200_000,
}, async () => {
  const begun = performance.now()
  const elapsed = () => (performance.now() - begun) / 60_000
  const sum: Figures = {}
  const failed: string[] = []
  for (let n = 0; n === 0 || elapsed() < minutes; n++) {
    const seed = firstSeed + n
    const embedded = findQdrant() === null || seed % embeddedEvery === embeddedEvery - 1
    const engine = embedded ? 'embedded' : 'qdrant'
    const run = { seed, engine, schedule: scheduleOf(seed, faultsMs), quietMsMax } as const
    const { report, figures } = await runWholePlatform(run).then(
      (outcome) => ({
        report: outcome.faults.length > 0 ? reportOf(run, outcome) : null,
        figures: figuresOf(outcome),
      }),
      (error: unknown) => ({ report: `seed ${seed} (${engine}) could not run: ${error}`, figures: {} }),
    )
    if (report) failed.push(report)
    addFigures(sum, { seeds: 1, ...figures })
    process.stdout.write(
      `${elapsed().toFixed(1)} min, seed ${seed} (${engine}): ${report ?? 'passed'}\n  ${JSON.stringify(figures)}\n`,
    )
  }
  process.stdout.write(`in all, ${elapsed().toFixed(1)} min: ${JSON.stringify(sum)}\n`)
  expect(failed).toEqual([])
})
