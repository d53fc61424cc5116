/** The clock of a process that a test steps while it runs, by libfaketime. What only goes forward stays as it is. */

import { existsSync, renameSync, writeFileSync } from 'node:fs'

export interface SteppedClock {
  /** For the process, from its start. */
  env: Record<string, string>
  /** From now on its clock is this much ahead of the machine's, or behind it. */
  step(seconds: number): void
}

/** The library of Debian's package `libfaketime`, which has one folder for each architecture. */
const libraries = ['x86_64', 'aarch64'].map(
  (machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketime.so.1`,
)

/** Null, and one line that says so, where libfaketime is not installed. `file` holds the step. */
export function stepClockOf(file: string): SteppedClock | null {
  const library = libraries.find((path) => existsSync(path))
  if (!library) {
    console.error('\n*** libfaketime is not installed: CLOCKS ARE NOT STEPPED. ***\n')
    return null
  }
  const step = (seconds: number) => {
    writeFileSync(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`)
    renameSync(`${file}.new`, file)
  }
  step(0)
  return {
    step,
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      // The file is read again once a second.
      FAKETIME_CACHE_DURATION: '1',
      // Times of files stay true.
      NO_FAKE_STAT: '1',
    },
  }
}
