/**
 * Vitest's global set-up for suites that open platforms on embedded engines: the data directory of a platform that was
 * started once. Each platform of a test begins with a copy of it: half the processor time of a first start is spent on tables,
 * topics and keys. Run as a program it makes that directory.
 */

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A data directory that nobody uses: copy it. */
    platformTemplate: string
  }
}

const makeTimeoutMs = 180_000

/** The template of this run: each project has a set-up of its own, and its own module state. */
const made = 'FLOTILLA_TEST_TEMPLATE'

export default async function setup(project: TestProject): Promise<() => void> {
  const before = process.env[made]
  if (before !== undefined) {
    project.provide('platformTemplate', before)
    return () => {}
  }
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const program = join(import.meta.dirname, 'make-platform-template.ts')
  // In a process of its own: this one runs until the last test has ended, and needs its memory for that.
  await promisify(execFile)(process.execPath, [program, folder], { timeout: makeTimeoutMs })
  process.env[made] = folder
  project.provide('platformTemplate', folder)
  return () => {
    delete process.env[made]
    rmSync(folder, { recursive: true, force: true })
  }
}
