/** Terminal output besides results: a progress bar on standard error, and nothing where that is a file or a pipe. */

import { afterEach, expect, it, vi } from 'vitest'
import { createOutput } from '../../../cli/output.ts'

const { isTTY } = process.stderr

afterEach(() => {
  process.stderr.isTTY = isTTY
  vi.restoreAllMocks()
})

/** What a load of two steps writes to both streams. */
function written(terminal: boolean): { stdout: string; stderr: string } {
  const text = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[stream], 'write').mockImplementation((part) => {
      text[stream] += String(part)
      return true
    })
  }
  process.stderr.isTTY = terminal
  const output = createOutput(() => {})
  output.progress({ label: 'exporting', done: 200, total: 1_000 })
  output.progress({ label: 'exporting', done: 1_000, total: 1_000 })
  output.end()
  return text
}

it('shows how far a long load is on a terminal', () => {
  const { stdout, stderr } = written(true)
  expect(stdout).toBe('')
  expect(stderr).toMatch(/exporting .* 20% 200\/1000/)
  expect(stderr).toMatch(/exporting .* 100% 1000\/1000/)
})

it('shows nothing of it in a pipe or a file', () => {
  expect(written(false)).toEqual({ stdout: '', stderr: '' })
})
