/** The end of a CI run: nothing that failed is counted as passed, and nothing is counted twice. */

import { expect, test } from 'vitest'
import { diedIn, type Step, sumUp } from '../../../scripts/ci/report.ts'
import type { FileReport, RunReport } from '../../support/report.ts'

const file = (name: string, more: Partial<FileReport> = {}): FileReport => ({
  project: 'flow',
  file: name,
  seconds: 1,
  died: false,
  failures: [],
  secondTries: [],
  ...more,
})
const report = (files: FileReport[], more: Partial<RunReport> = {}): RunReport => ({
  passed: 10,
  skipped: 0,
  files,
  unhandled: [],
  ...more,
})
const step = (name: string, exitCode = 0): Step => ({ name, seconds: 60, limitSeconds: 200, exitCode })
const fault = { test: 'a promise', message: 'expected 1 to be 2' }

test('steps that passed are added up, with the slowest file first', () => {
  const reports = new Map([
    ['test', report([file('a.test.ts'), file('b.test.ts', { seconds: 12.34 })])],
    ['faults', report([file('c.test.ts', { seconds: 3 })])],
  ])
  const { text, ...counts } = sumUp([step('install'), step('test'), step('faults')], reports)
  expect(counts).toEqual({ passed: 20, failed: 0 })
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
  const reports = new Map([['test', report([file('a.test.ts')], { unhandled: ['Error: late'] })]])
  const { text, failed } = sumUp([step('test', 1)], reports)
  expect([failed, text.includes('Error: late')]).toEqual([1, true])
})

test('a file whose worker died is a failure, unless it was run again and passed', () => {
  const died = report([file('a.test.ts', { died: true }), file('b.test.ts')])
  expect(diedIn(died)).toEqual(['a.test.ts'])
  const first = new Map([['test', died]])
  expect(sumUp([step('test', 1)], first).failed).toBe(1)
  const again = new Map([...first, ['test-again', report([file('a.test.ts')])]])
  expect(sumUp([step('test', 1), step('test-again')], again).failed).toBe(0)
  const worse = new Map([...first, ['test-again', report([file('a.test.ts', { failures: [fault] })])]])
  expect(sumUp([step('test', 1), step('test-again', 1)], worse).failed).toBe(1)
})

test('second tries are printed; more than three are failures', () => {
  const tries = (count: number) =>
    new Map([
      [
        'test',
        report(Array.from({ length: count }, (_, n) => file(`${n}.test.ts`, { secondTries: [fault] }))),
      ],
    ])
  const three = sumUp([step('test')], tries(3))
  expect(three.failed).toBe(0)
  expect(three.text).toContain('SECOND TRY 0.test.ts: a promise')
  expect(sumUp([step('test')], tries(4)).failed).toBe(4)
})
