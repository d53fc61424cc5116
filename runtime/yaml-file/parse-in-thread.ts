/** Parses a YAML file in a thread of its own, so that no text of an operator holds up the requests of this process. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { openWorker } from '#lib/worker-rpc.ts'
import type { Parsed } from './located-yaml.ts'
import type { ParsingThread } from './located-yaml-thread.ts'

const entry = new URL('./located-yaml-thread.ts', import.meta.url)
const heapMbMax = 256

/** As `parseText`. Throws AppError `invalid_configuration` when it takes too long or too much memory. */
export async function parseInThread(text: string): Promise<Parsed> {
  const thread = openWorker<ParsingThread>({ entry, name: 'yaml file', heapMbMax }, tooMuch)
  try {
    return await withTimeout(thread.call.parse(text), deadlines.yamlParseMs, tooMuch)
  } finally {
    await thread.terminate()
  }
}

function tooMuch(): AppError {
  return new AppError('invalid_configuration', 'The file takes too long to read: make it smaller.')
}
