/** The command `index-jsonl`: records in, an index file out, with a progress bar on a terminal. */

import { SingleBar } from 'cli-progress'
import { buildIndex } from '#local-search/build.ts'
import { readArguments, wrongUse } from '#local-search/command/arguments.ts'
import { helpTexts } from '#local-search/command/help.ts'
import { plain, print } from '#local-search/command/output.ts'
import { exitFound, withFaults } from '#local-search/command/run.ts'
import type { JsonlFault } from '#local-search/contract.ts'

const options = {
  input: 'value',
  output: 'value',
  strict: 'switch',
  json: 'switch',
  help: 'switch',
} as const
/** Faulty lines that are named one by one. */
const faultsNamedMax = 20

/** Returns the exit code. */
export function indexJsonl(args: readonly string[]): number {
  return withFaults(args, () => {
    const { positional, values, switches } = readArguments(args, options)
    if (switches.has('help')) {
      print(1, `${helpTexts['index-jsonl']}\n`)
      return exitFound
    }
    const { input, output } = values
    if (!input || !output || positional.length > 0) {
      throw wrongUse('index-jsonl needs --input FILE and --output FILE')
    }
    build(input, output, switches)
    return exitFound
  })
}

function build(input: string, output: string, switches: ReadonlySet<string>): void {
  const startedAt = performance.now()
  const bar = createBar()
  const named: JsonlFault[] = []
  try {
    const report = buildIndex({
      input,
      output,
      strict: switches.has('strict'),
      onFault(fault) {
        if (named.length < faultsNamedMax) named.push(fault)
      },
      onProgress: bar.show,
    })
    bar.end()
    const tookMs = Math.round(performance.now() - startedAt)
    for (const { line, message } of named) print(2, `line ${line}: ${plain(message)}\n`)
    const unnamed = report.faults - named.length
    if (unnamed > 0) print(2, `and ${unnamed} more faulty lines\n`)
    if (switches.has('json')) {
      print(1, `${JSON.stringify({ index: output, ...report, took_ms: tookMs })}\n`)
    } else {
      const { records, duplicates, faults, bytes } = report
      print(
        1,
        `${records} records in ${output}, ${(bytes / 1e6).toFixed(1)} MB, ${(tookMs / 1000).toFixed(1)} s ` +
          `(${duplicates} replaced by a later one with the same id, ${faults} faulty lines skipped)\n`,
      )
    }
  } finally {
    bar.end()
  }
}

/** Follows the reading; what comes after it, merging, takes about as long and is said in words. */
function createBar() {
  let bar: SingleBar | undefined
  return {
    show(readBytes: number, totalBytes: number) {
      if (!process.stderr.isTTY || totalBytes === 0) return
      if (!bar) {
        const format = 'reading {bar} {percentage}%, then merging'
        bar = new SingleBar({ format, stream: process.stderr, hideCursor: false })
        bar.start(totalBytes, 0)
      }
      bar.update(readBytes)
      bar.render()
    },
    end() {
      bar?.stop()
      bar = undefined
    },
  }
}
