/** Has a new index built by a process of its own; resolves when its files are complete. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { MergeOrder } from './merge-order.ts'

const entry = fileURLToPath(new URL('./merge-process.ts', import.meta.url))

/** Rejects when the process fails; `signal` kills it. */
export function runMerge(order: MergeOrder, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, JSON.stringify(order)], {
      stdio: ['pipe', 'ignore', 'ignore'],
      signal,
      killSignal: 'SIGKILL',
    })
    child.on('error', reject)
    child.on('exit', (code, killed) => {
      if (code === 0) resolve()
      else reject(new Error(`the process that builds the index ended with ${killed ?? code}`))
    })
  })
}
