/** `flotilla export`: the points of a collection as JSON lines, for a local index. */

import {
  closeSync,
  existsSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { resolve } from 'node:path'
import type { Command as Program } from 'commander'
import { AppError, describeError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { exportOperation } from '#operations/export.ts'
import { type Cli, describe } from '../cli.ts'
import { createOutput, line, printError, printJson } from '../output.ts'

/** The pause before writing again to a standard output that takes nothing at the moment. */
const retryMs = 2
/** Enough to see how a record begins. */
const firstBytes = 16

/** Where the lines go: a file that gets its name when it is whole, or standard output. */
export function openSink(named: string | undefined, force: boolean) {
  if (named === undefined) {
    return { write: (text: string) => writeWhole(1, text), finish() {}, abandon() {} }
  }
  const file = replaceable(named, force)
  const partial = `${file}.${process.pid}.partial`
  const descriptor = openForWriting(partial)
  return {
    write: (text: string) => writeWhole(descriptor, text),
    finish() {
      closeSync(descriptor)
      renameSync(partial, file)
    },
    abandon() {
      closeSync(descriptor)
      rmSync(partial, { force: true })
    },
  }
}

/**
 * The file behind the name. Throws AppError `conflict` for what is there and no regular file, and without `force` for a
 * file that is no export.
 */
function replaceable(named: string, force: boolean): string {
  if (!existsSync(named)) return resolve(named)
  // What a link points to is replaced, and not the link.
  const file = realpathSync(named)
  if (!statSync(file).isFile()) {
    throw new AppError('conflict', `${resolve(named)} is no regular file: it is not overwritten.`)
  }
  if (!force && !isExport(file)) {
    throw new AppError('conflict', `${file} is no export: it is not overwritten without --force.`)
  }
  return file
}

/** Empty, or beginning with a record as `export` writes it. */
function isExport(file: string): boolean {
  const start = Buffer.alloc(firstBytes)
  const descriptor = openSync(file, 'r')
  try {
    const length = readSync(descriptor, start, 0, start.length, 0)
    return length === 0 || start.subarray(0, length).toString('utf8').startsWith('{"id":"')
  } finally {
    closeSync(descriptor)
  }
}

function openForWriting(file: string): number {
  try {
    return openSync(file, 'wx', 0o600)
  } catch (error) {
    throw new AppError('bad_request', `Cannot write there: ${describeError(error)}`)
  }
}

/** A pipe may take less than all, or nothing at the moment. */
function writeWhole(descriptor: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let from = 0; from < bytes.length; ) {
    try {
      from += writeSync(descriptor, bytes, from)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Who reads may stop reading, as `head` does: that is no fault.
      if (code === 'EPIPE' && descriptor === 1) process.exit()
      if (code !== 'EAGAIN') {
        throw new AppError('conflict', `The export ended early: ${describeError(error)}`)
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs)
    }
  }
}

interface ExportOptions {
  output?: string
  force?: boolean
  json?: boolean
}

export function registerExport(program: Program, cli: Cli): void {
  const command = program
    .command('export')
    .argument('<collection>', 'one of those that flotilla collections list shows')
    .summary('the points of a collection as JSON lines, for index-jsonl')
    .description('the points of a collection as JSON lines, one record a line, for flotilla index-jsonl')
    .option('--output <file>', 'where to write them; default: standard output')
    .option('--force', 'replace an output that is a file, but no export')
  describe(
    command,
    'flotilla export knowledgebase --output knowledgebase.jsonl\n' +
      'flotilla index-jsonl --input knowledgebase.jsonl --output index.stidx',
  ).action(async (collection: string, { output: file, force, json }: ExportOptions) => {
    if (json && file === undefined) {
      throw new AppError('bad_request', 'With --json name a file by --output: the records are JSON lines.')
    }
    const sink = openSink(file, force === true)
    const path = file === undefined ? undefined : resolve(file)
    try {
      const output = createOutput((lines: string) => sink.write(lines))
      const { records } = await cli.execute(exportOperation, { collection }, output).finally(output.end)
      sink.finish()
      if (json) printJson({ collection, records, file: path })
      else {
        const place = path === undefined ? '' : ` in ${path}`
        printError(line`${plural(records, 'record')} of ${collection}${place}`)
      }
    } catch (error) {
      sink.abandon()
      throw error
    }
  })
}
