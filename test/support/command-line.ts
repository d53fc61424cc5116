/** A command line run in this process: its exit code and all that it printed. */

import { expect, vi } from 'vitest'
import { runCommandLine } from '../../cli/program.ts'

const never = new AbortController().signal

export interface CommandRun {
  code: number
  /** All of it, in order. */
  printed: string
  stdout: string
  stderr: string
}

/** `signal` is the operator's Ctrl-C. */
export async function runCommand(
  args: readonly string[],
  env: Record<string, string>,
  signal: AbortSignal = never,
): Promise<CommandRun> {
  const run: CommandRun = { code: 0, printed: '', stdout: '', stderr: '' }
  const keepIn = (stream: 'stdout' | 'stderr') => (text: unknown) => {
    run[stream] += String(text)
    run.printed += String(text)
    return true
  }
  const line = (keep: (text: unknown) => boolean) => (text: unknown) => void keep(`${text}\n`)
  vi.spyOn(process.stdout, 'write').mockImplementation(keepIn('stdout'))
  vi.spyOn(process.stderr, 'write').mockImplementation(keepIn('stderr'))
  vi.spyOn(console, 'log').mockImplementation(line(keepIn('stdout')))
  vi.spyOn(console, 'error').mockImplementation(line(keepIn('stderr')))
  try {
    run.code = await runCommandLine(args, env, signal)
    return run
  } finally {
    vi.restoreAllMocks()
  }
}

/** With --json: one document on standard output and nothing else. */
export async function runJson<T>(
  args: readonly string[],
  env: Record<string, string>,
  code = 0,
  signal?: AbortSignal,
): Promise<T> {
  const run = await runCommand([...args, '--json'], env, signal)
  expect(`${run.code} ${run.stderr}`).toBe(`${code} `)
  return JSON.parse(run.stdout) as T
}
