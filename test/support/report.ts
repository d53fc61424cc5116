/**
 * The report of a run of tests: the slowest files at its end, and where FLOTILLA_REPORT names a file,
 * all of it as JSON for scripts/ci/report.ts.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import type { SerializedError } from 'vitest'
import type { Reporter, TestModule } from 'vitest/node'

export interface RunReport {
  files: FileReport[]
  /** Errors that belong to no test. */
  unhandled: string[]
}

export interface FileReport {
  project: string
  file: string
  /** Wall time of imports, hooks and tests. */
  seconds: number
  passed: number
  failures: Failure[]
}

export interface Failure {
  test: string
  message: string
}

const slowestCount = 20
const wholeFile = 'the file itself'
const messageLengthMax = 600

export function createReport(root: string, path: string | undefined): Reporter {
  return {
    onTestRunEnd(modules, unhandledErrors) {
      const report = reportOf(root, modules, unhandledErrors)
      if (report.files.length > 1) process.stdout.write(`\n${slowestOf(report.files)}\n`)
      if (path === undefined) return
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, JSON.stringify(report))
    },
  }
}

/** One line for each of the slowest files. */
export function slowestOf(files: readonly FileReport[]): string {
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, slowestCount)
  const lines = slowest.map(({ seconds, file }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`)
  return [`The ${slowest.length} slowest of ${files.length} files:`, ...lines].join('\n')
}

function reportOf(
  root: string,
  modules: readonly TestModule[],
  unhandledErrors: readonly SerializedError[],
): RunReport {
  return {
    files: modules.map((module) => fileReportOf(root, module)),
    unhandled: unhandledErrors.map((error) => error.stack ?? error.message),
  }
}

function fileReportOf(root: string, module: TestModule): FileReport {
  const { collectDuration, duration } = module.diagnostic()
  const file: FileReport = {
    project: module.project.name,
    file: relative(root, module.moduleId),
    seconds: (collectDuration + duration) / 1_000,
    passed: 0,
    failures: [],
  }
  for (const suite of [module, ...module.children.allSuites()]) {
    const errors = suite.errors()
    const test = suite.type === 'module' ? wholeFile : suite.fullName
    if (errors.length > 0) file.failures.push({ test, message: messageOf(errors) })
  }
  let ended = !['queued', 'pending'].includes(module.state())
  for (const test of module.children.allTests()) {
    const { state, errors } = test.result()
    if (state === 'passed') file.passed++
    if (state === 'failed') file.failures.push({ test: test.fullName, message: messageOf(errors ?? []) })
    if (state === 'pending') ended = false
  }
  if (!ended) file.failures.push({ test: wholeFile, message: 'its worker died' })
  return file
}

function messageOf(errors: readonly SerializedError[]): string {
  return errors
    .map(({ stack, message }) => stack ?? message)
    .join('\n')
    .slice(0, messageLengthMax)
}
