/**
 * Adds up what the steps of `.ci/run` reported.
 *
 *   node scripts/ci/report.ts died FOLDER STEP   the files of a step whose worker died, in one line
 *   node scripts/ci/report.ts sum FOLDER         the table of steps, the slowest files, failures; exits 1 when something failed
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type FileReport, type RunReport, slowestOf } from '../../test/support/report.ts'

/** A test may need its second try when the machine stalls. When more do, something is wrong. */
const secondTriesMax = 3

export interface Step {
  name: string
  seconds: number
  limitSeconds: number
  exitCode: number
}

export interface Sum {
  text: string
  passed: number
  failed: number
}

/** `reports` by the name of their step. A file that died counts as failed unless a later step ran it whole. */
export function sumUp(steps: readonly Step[], reports: ReadonlyMap<string, RunReport>): Sum {
  const runs = [...reports.values()]
  const files = lastOf(runs)
  const failures = files.flatMap(({ file, failures, died }) => [
    ...failures.map(({ test, message }) => `FAILED ${file}: ${test}\n  ${message}`),
    ...(died ? [`FAILED ${file}: its worker died`] : []),
  ])
  const secondTries = files.flatMap(({ file, secondTries }) =>
    secondTries.map(({ test, message }) => `SECOND TRY ${file}: ${test}\n  ${message}`),
  )
  const broken = steps.filter((step) => isBroken(step, reports, files))
  const brokenLines = broken.flatMap(({ name, exitCode }) => [
    `FAILED step ${name}: it ended with ${exitCode}`,
    ...(reports.get(name)?.unhandled ?? []),
  ])
  const failed =
    failures.length + broken.length + (secondTries.length > secondTriesMax ? secondTries.length : 0)
  return {
    passed: runs.reduce((sum, { passed }) => sum + passed, 0),
    failed,
    text: [
      table(steps),
      slowestOf(files),
      `${secondTries.length} tests needed a second try (at most ${secondTriesMax})`,
      ...secondTries,
      ...failures,
      ...brokenLines,
    ].join('\n'),
  }
}

/** Files of a step whose worker died. */
export function diedIn(report: RunReport): string[] {
  return report.files.filter(({ died }) => died).map(({ file }) => file)
}

/** Each file once, as the last step that ran it says. */
function lastOf(runs: readonly RunReport[]): FileReport[] {
  const last = new Map<string, FileReport>()
  for (const { files } of runs) for (const one of files) last.set(`${one.project} ${one.file}`, one)
  return [...last.values()]
}

/** It ended badly, and no failed test says why. */
function isBroken(
  { name, exitCode }: Step,
  reports: ReadonlyMap<string, RunReport>,
  files: readonly FileReport[],
): boolean {
  if (exitCode === 0) return false
  const report = reports.get(name)
  if (report === undefined) return true
  const ran = (one: FileReport) =>
    report.files.some((own) => own.project === one.project && own.file === one.file)
  const failed = files.some((one) => ran(one) && (one.failures.length > 0 || one.died))
  const ranAgain = diedIn(report).length > 0
  return !failed && !ranAgain
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
  if (what === 'died') {
    const report = readReport(folder, step)
    console.log(report === undefined ? '' : diedIn(report).join(' '))
    return 0
  }
  const steps = readSteps(folder)
  const reports = new Map<string, RunReport>()
  for (const { name } of steps) {
    const report = readReport(folder, name)
    if (report) reports.set(name, report)
  }
  const stray = readdirSync(folder).filter(
    (file) => file.endsWith('.json') && !reports.has(file.slice(0, -5)),
  )
  if (stray.length > 0) console.log(`Reports of no step: ${stray.join(', ')}`)
  const { text, passed, failed } = sumUp(steps, reports)
  const nothing = passed === 0 ? 1 : 0
  console.log(`${text}\n${passed} passed, ${failed + nothing} failed`)
  return failed + nothing > 0 ? 1 : 0
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2))
