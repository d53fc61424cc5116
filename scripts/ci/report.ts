/**
 * Adds up what the steps of `.ci/run` reported.
 *
 *   node scripts/ci/report.ts again FOLDER STEP   the files of a step that get a second try, in one line
 *   node scripts/ci/report.ts sum FOLDER          the table of steps, the slowest files, failures; exits 1 when something failed
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type FileReport, type RunReport, slowestOf } from '../../test/support/report.ts'

/** A test may need a second try when a machine stalls, or V8 aborts its worker (nodejs/node#64500). When more do, something is wrong. */
const secondTriesMax = 3

export interface Step {
  name: string
  seconds: number
  limitSeconds: number
  exitCode: number
}

interface Sum {
  text: string
  passed: number
  failed: number
}

/** `reports` by the name of their step, in the order of the steps. Of a file that ran twice the last run counts. */
export function sumUp(steps: readonly Step[], reports: ReadonlyMap<string, RunReport>): Sum {
  const last = new Map<string, FileReport>()
  const secondTries: string[] = []
  for (const { files } of reports.values()) {
    for (const one of files) {
      const first = last.get(keyOf(one))
      if (first && one.failures.length === 0) secondTries.push(...linesOf('SECOND TRY', first))
      last.set(keyOf(one), one)
    }
  }
  const files = [...last.values()]
  const failures = files.flatMap((file) => linesOf('FAILED', file))
  const broken = steps.filter((step) => isBroken(step, reports.get(step.name)))
  const tooMany = secondTries.length > secondTriesMax ? secondTries.length : 0
  return {
    passed: files.reduce((sum, { passed }) => sum + passed, 0),
    failed: failures.length + broken.length + tooMany,
    text: [
      table(steps),
      slowestOf(files),
      `${secondTries.length} tests needed a second try (at most ${secondTriesMax})`,
      ...secondTries,
      ...failures,
      ...broken.flatMap(({ name, exitCode }) => [
        `FAILED step ${name}: it ended with ${exitCode}`,
        ...(reports.get(name)?.unhandled ?? []),
      ]),
    ].join('\n'),
  }
}

/** Files whose tests failed, or whose worker died: all of them or, where they are too many for a second try, none. */
export function toTryAgain({ files }: RunReport): string[] {
  const failed = files.filter(({ failures }) => failures.length > 0)
  const tests = failed.reduce((sum, { failures }) => sum + failures.length, 0)
  return tests > secondTriesMax ? [] : failed.map(({ file }) => file)
}

function keyOf({ project, file }: FileReport): string {
  return `${project} ${file}`
}

function linesOf(what: string, { file, failures }: FileReport): string[] {
  return failures.map(({ test, message }) => `${what} ${file}: ${test}\n  ${message}`)
}

/** It ended badly, and no test of it says why. */
function isBroken({ exitCode }: Step, report: RunReport | undefined): boolean {
  return exitCode !== 0 && !report?.files.some(({ failures }) => failures.length > 0)
}

function table(steps: readonly Step[]): string {
  const lines = steps.map(
    ({ name, seconds, limitSeconds }) =>
      `${String(seconds).padStart(7)} s  ${name} (limit ${limitSeconds} s)`,
  )
  const all = steps.reduce((sum, { seconds }) => sum + seconds, 0)
  return ['Steps:', ...lines, `${String(all).padStart(7)} s  in all`].join('\n')
}

function readSteps(folder: string): Step[] {
  const lines = readFileSync(join(folder, 'steps'), 'utf8').trim().split('\n')
  return lines.map((line) => {
    const [name = '', seconds, limitSeconds, exitCode] = line.split(' ')
    return {
      name,
      seconds: Number(seconds),
      limitSeconds: Number(limitSeconds),
      exitCode: Number(exitCode),
    }
  })
}

function readReport(folder: string, step: string): RunReport | undefined {
  const path = join(folder, `${step}.json`)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as RunReport) : undefined
}

function main([what, folder = '', step = '']: string[]): number {
  if (what === 'again') {
    const report = readReport(folder, step)
    console.log(report ? toTryAgain(report).join(' ') : '')
    return 0
  }
  const steps = readSteps(folder)
  const reports = new Map<string, RunReport>()
  for (const { name } of steps) {
    const report = readReport(folder, name)
    if (report) reports.set(name, report)
  }
  const { text, passed, failed } = sumUp(steps, reports)
  const all = failed + (passed === 0 ? 1 : 0)
  console.log(`${text}\n${passed} passed, ${all} failed`)
  return all > 0 ? 1 : 0
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2))
