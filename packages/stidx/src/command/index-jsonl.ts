/** The command `index-jsonl`: builds an index file from JSON lines, with a progress bar on a terminal. */

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { SingleBar } from 'cli-progress'
import { type BuildOptions, buildIndex } from '../build.ts'
import type { BuildReport, JsonlFault } from '../contract.ts'
import { SearchFault } from '../fault.ts'
import { readArguments, wrongUse } from './arguments.ts'
import { helpTexts } from './help.ts'
import { plain, print } from './output.ts'
import { exitFound, withFaults } from './run.ts'

const options = {
  input: 'value',
  output: 'value',
  strict: 'switch',
  force: 'switch',
  json: 'switch',
  help: 'switch',
} as const
/** Faulty lines that are named one by one. */
const faultsNamedMax = 20
/** Young garbage is collected early; the old limit is room for records of many megabytes, see `collectGarbage`. */
const resourceLimits = { maxOldGenerationSizeMb: 2048, maxYoungGenerationSizeMb: 8 }
const workerMark = 'stidx-build'

interface Job {
  mark: typeof workerMark
  input: string
  output: string
  strict: boolean
  force: boolean
}

type Message =
  | { kind: 'progress'; readBytes: number; totalBytes: number }
  | { kind: 'fault'; fault: JsonlFault }
  | { kind: 'done'; report: BuildReport }
  | { kind: 'failed'; code: SearchFault['code']; message: string }

if (!isMainThread && (workerData as Job | null)?.mark === workerMark) work(workerData as Job)

/** Returns the exit code. */
export async function indexJsonl(args: readonly string[]): Promise<number> {
  let build = async () => exitFound
  const code = withFaults(args, () => {
    const { positional, values, switches } = readArguments(args, options)
    if (switches.has('help')) {
      print(1, `${helpTexts['index-jsonl']}\n`)
      return exitFound
    }
    const { input, output } = values
    if (!input || !output || positional.length > 0) {
      throw wrongUse('index-jsonl needs --input FILE and --output FILE')
    }
    const [strict, force] = [switches.has('strict'), switches.has('force')]
    build = () => run(args, { mark: workerMark, input, output, strict, force })
    return exitFound
  })
  return code === exitFound ? build() : code
}

async function run(args: readonly string[], job: Job): Promise<number> {
  const startedAt = performance.now()
  const bar = createBar()
  const named: JsonlFault[] = []
  const ended = await inWorker(job, bar.show, (fault) => named.push(fault))
  bar.end()
  const tookMs = Math.round(performance.now() - startedAt)
  for (const { line, message } of named) print(2, `line ${line}: ${plain(message)}\n`)
  return withFaults(args, () => {
    if (ended instanceof Error) throw ended
    report(ended, job.output, tookMs, named.length, args.includes('--json'))
    return exitFound
  })
}

function report(built: BuildReport, output: string, tookMs: number, named: number, isJson: boolean): void {
  const { records, duplicates, faults, bytes } = built
  if (faults > named) print(2, `and ${faults - named} more faulty lines\n`)
  if (isJson) {
    print(1, `${JSON.stringify({ index: output, ...built, took_ms: tookMs })}\n`)
    return
  }
  print(
    1,
    `${records} records in ${plain(output)}, ${(bytes / 1e6).toFixed(1)} MB, ${(tookMs / 1000).toFixed(1)} s ` +
      `(${duplicates} replaced by a later one with the same id, ${faults} faulty lines skipped)\n`,
  )
}

/** Builds in a thread of its own: its memory has limits, and the bar moves meanwhile. Resolves also with a fault. */
function inWorker(
  job: Job,
  onProgress: (readBytes: number, totalBytes: number) => void,
  onFault: (fault: JsonlFault) => void,
): Promise<BuildReport | Error> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: job, resourceLimits })
    worker.on('message', (message: Message) => {
      if (message.kind === 'progress') onProgress(message.readBytes, message.totalBytes)
      else if (message.kind === 'fault') onFault(message.fault)
      else if (message.kind === 'done') resolve(message.report)
      else resolve(new SearchFault(message.code, message.message))
    })
    worker.on('error', (error) => {
      const isMemory = (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY'
      resolve(isMemory ? new SearchFault('bad_input', 'a record is too large to be indexed') : error)
    })
  })
}

function work({ input, output, strict, force }: Job): void {
  const post = (message: Message) => parentPort!.postMessage(message)
  let posted = 0
  const build: BuildOptions = {
    input,
    output,
    strict,
    force,
    onFault(fault) {
      // Only the first ones are named: a file without one good line must not fill the queue.
      if (posted++ < faultsNamedMax) post({ kind: 'fault', fault })
    },
    onSpill: collectGarbage(),
    onProgress: (readBytes, totalBytes) => post({ kind: 'progress', readBytes, totalBytes }),
  }
  try {
    post({ kind: 'done', report: buildIndex(build) })
  } catch (error) {
    if (!(error instanceof SearchFault)) throw error
    post({ kind: 'failed', code: error.code, message: error.message })
  }
}

/** V8 by itself lets garbage pile up to several times the live memory: most memory of a run is garbage after it. */
function collectGarbage(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

/** Shows the progress of reading; merging takes about as long afterwards and is a line of text. */
function createBar() {
  let bar: SingleBar | undefined
  return {
    show(readBytes: number, totalBytes: number) {
      if (!process.stderr.isTTY || totalBytes === 0) return
      if (!bar) {
        const format = 'reading {bar} {percentage}%, then merging'
        bar = new SingleBar({ format, stream: process.stderr })
        bar.start(totalBytes, 0)
      }
      bar.update(readBytes)
    },
    end() {
      bar?.stop()
      bar = undefined
    },
  }
}
