/** A command line run in this process: its exit code and all that it printed. */

import { vi } from 'vitest'
import { runCommandLine } from '../../cli/run.ts'

const signal = new AbortController().signal

export async function runCommand(
  args: string[],
  env: Record<string, string>,
  /** Gets what goes to standard output alone. */
  onStdout: (text: string) => void = () => {},
): Promise<{ code: number; printed: string }> {
  let printed = ''
  const keep = (text: unknown) => {
    printed += String(text)
    return true
  }
  const keepOutput = (text: unknown) => {
    onStdout(String(text))
    return keep(text)
  }
  vi.spyOn(process.stdout, 'write').mockImplementation(keepOutput)
  vi.spyOn(process.stderr, 'write').mockImplementation(keep)
  vi.spyOn(console, 'log').mockImplementation(keepOutput)
  vi.spyOn(console, 'error').mockImplementation(keep)
  try {
    return { code: await runCommandLine(args, env, signal), printed }
  } finally {
    vi.restoreAllMocks()
  }
}
