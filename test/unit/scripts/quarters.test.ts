/** Every suite of the second tier is in a quarter, and a changed file brings its suite into any. */

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  heavy,
  heavyFirst,
  leftOut,
  quarters,
  staticSuites,
  suitesOf,
  wholeOnly,
} from '../../long/quarters.ts'
import { projectFolder } from '../../support/pages.ts'

test('each file of test/long is in one quarter, or takes minutes by itself', () => {
  const files = readdirSync(join(projectFolder, 'test/long')).filter((file) => file.endsWith('.test.ts'))
  expect([...quarters.flat(), ...wholeOnly].sort()).toEqual(files.sort())
})

test('a suite that only checks files runs in every quarter while they are new', () => {
  const isChart = (paths: readonly string[]) => paths.includes('deploy/charts')
  for (let quarter = 0; quarter < quarters.length; quarter++) {
    expect(suitesOf(quarter, isChart).filter((file) => file === 'test/long/chart.test.ts')).toHaveLength(1)
    expect(suitesOf(quarter, () => false)).toHaveLength(quarters[quarter]!.length)
  }
  expect(() => suitesOf(4)).toThrow('0 to 3')
})

test('each heavy suite is there, and in one quarter; one that is named is not left out', () => {
  for (const file of heavy) expect(existsSync(join(projectFolder, file)), file).toBe(true)
  const run = quarters.map((_, quarter) => heavy.filter((file) => !leftOut(quarter, []).includes(file)))
  expect(run.flat().sort()).toEqual([...heavy].sort())
  expect(leftOut(undefined, [])).toEqual(heavyFirst)
  expect(leftOut(undefined, ['--project', 'flow', heavyFirst[0]!])).toEqual(heavyFirst.slice(1))
})

test('what those suites read is there', () => {
  for (const path of Object.values(staticSuites).flat())
    expect(existsSync(join(projectFolder, path)), path).toBe(true)
})
