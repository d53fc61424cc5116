/** Parses a targets file in a thread of its own, so that no text of an operator holds up the requests of this process. */

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { type Fault, type Located, parseLocated } from './located-yaml.ts'

export interface Parsed {
  root: Located | null
  faults: Fault[]
}

interface Job {
  targetsText: string
}

const resourceLimits = { maxOldGenerationSizeMb: 256 }

if (!isMainThread && typeof (workerData as Job | null)?.targetsText === 'string') {
  parentPort!.postMessage(parseText((workerData as Job).targetsText))
}

export function parseText(text: string): Parsed {
  const faults: Fault[] = []
  return { root: parseLocated(text, faults), faults }
}

/** As `parseText`. Throws AppError `invalid_configuration` when it takes too long or too much memory. */
export async function parseTextInThread(text: string): Promise<Parsed> {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { targetsText: text } satisfies Job,
    resourceLimits,
  })
  worker.unref()
  const parsed = new Promise<Parsed>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', () => reject(tooMuch()))
    worker.once('exit', () => reject(tooMuch()))
  })
  try {
    return await withTimeout(parsed, deadlines.targetsParseMs, tooMuch)
  } finally {
    await worker.terminate()
  }
}

function tooMuch(): AppError {
  return new AppError('invalid_configuration', 'The targets file takes too long to read: make it smaller.')
}
