/** The end of a CI run: nothing that failed is counted as passed, and nothing is counted twice. */

import { expect, test } from 'vitest'
import { type Step, sumUp, toTryAgain } from '../../../scripts/ci/report.ts'
import type { FileReport, RunReport } from '../../support/report.ts'

const file = (name: string, more: Partial<FileReport> = {}): FileReport => ({
  project: 'flow',
  file: name,
  seconds: 1,
  passed: 10,
  failures: [],
  ...more,
})
const report = (files: FileReport[], unhandled: string[] = []): RunReport => ({ files, unhandled })
const step = (name: string, exitCode = 0): Step => ({ name, seconds: 60, limitSeconds: 200, exitCode })
const fault = { test: 'a promise', message: 'expected 1 to be 2' }

test('steps that passed are added up, with the slowest file first', () => {
  const reports = new Map([
    ['test', report([file('a.test.ts'), file('b.test.ts', { seconds: 12.34 })])],
    ['faults', report([file('c.test.ts', { seconds: 3 })])],
  ])
  const { text, ...counts } = sumUp([step('install'), step('test'), step('faults')], reports)
  expect(counts).toEqual({ passed: 30, failed: 0 })
  expect(text).toContain('    180 s  in all')
  expect(text.match(/\S+\.test\.ts/g)).toEqual(['b.test.ts', 'c.test.ts', 'a.test.ts'])
})

test('a test that failed is counted and printed, and its step not once more', () => {
  const reports = new Map([['test', report([file('a.test.ts', { failures: [fault] })])]])
  const { text, failed } = sumUp([step('test', 1)], reports)
  expect(failed).toBe(1)
  expect(text).toContain('FAILED a.test.ts: a promise\n  expected 1 to be 2')
})

test.each([
  ['has no report', new Map<string, RunReport>()],
  ['ended badly although its tests passed', new Map([['test', report([file('a.test.ts')])]])],
])('a step that %s is a failure', (_, reports) => {
  const { text, failed } = sumUp([step('test', 124)], reports)
  expect(failed).toBe(1)
  expect(text).toContain('FAILED step test: it ended with 124')
})

test('an error that belongs to no test is printed', () => {
  const reports = new Map([['test', report([file('a.test.ts')], ['Error: late'])]])
  const { text, failed } = sumUp([step('test', 1)], reports)
  expect([failed, text.includes('Error: late')]).toEqual([1, true])
})

test('a file that failed gets a second try: it counts once, and what it needed is printed', () => {
  const first = report([file('a.test.ts', { failures: [fault], passed: 9 }), file('b.test.ts')])
  expect(toTryAgain(first)).toEqual(['a.test.ts'])
  const steps = [step('test', 1), step('test-again')]
  const good = sumUp(
    steps,
    new Map([
      ['test', first],
      ['test-again', report([file('a.test.ts')])],
    ]),
  )
  expect([good.passed, good.failed]).toEqual([20, 0])
  expect(good.text).toContain('1 tests needed a second try (at most 3)\nSECOND TRY a.test.ts: a promise')
  const bad = report([file('a.test.ts', { failures: [fault], passed: 9 })])
  const worse = sumUp(
    [step('test', 1), step('test-again', 1)],
    new Map([
      ['test', first],
      ['test-again', bad],
    ]),
  )
  expect([worse.passed, worse.failed]).toEqual([19, 1])
})

test('more than three get none, and more than three in all steps are failures', () => {
  const failing = (name: string, count: number) =>
    file(name, { failures: Array.from({ length: count }, () => fault) })
  expect(toTryAgain(report([failing('a.test.ts', 2), failing('b.test.ts', 1)]))).toHaveLength(2)
  expect(toTryAgain(report([failing('a.test.ts', 2), failing('b.test.ts', 2)]))).toEqual([])
  const reports = new Map([
    ['test', report([failing('a.test.ts', 2)])],
    ['test-again', report([file('a.test.ts')])],
    ['faults', report([failing('b.test.ts', 2)])],
    ['faults-again', report([file('b.test.ts')])],
  ])
  const steps = [...reports.keys()].map((name) => step(name, name.endsWith('again') ? 0 : 1))
  expect(sumUp(steps, reports).failed).toBe(4)
})
