/** `flotilla export`: the points of a collection as JSON lines, for a local index. */

import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import type { Command as Program } from 'commander'
import { collections } from '#engines/vectors/collections.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type ExportArgs, exportCommand } from '#operations/export.ts'
import { findControlSocket } from '#runtime/control.ts'
import { homeOf } from '#runtime/settings.ts'
import { type Cli, describe } from '../cli.ts'
import { execute } from '../execute.ts'
import { createOutput } from '../output.ts'

/** What one call to a running platform sends: it may never fill the socket faster than it is read. */
const callBytesMax = 16 * 2 ** 20
/** How long a standard output that takes nothing more is left alone. */
const retryMs = 2

interface Sink {
  write(text: string): void
  /** The file gets its name only when it is whole. */
  finish(): void
  abandon(): void
}

async function exportCollection(cli: Cli, collection: string, sink: Sink): Promise<number> {
  let done = 0
  let offset: string | undefined
  let fault: unknown
  const givenUp = new AbortController()
  // Lines come in between the calls of a socket: what is thrown there would reach nobody.
  const write = (lines: string) => {
    try {
      if (fault === undefined) sink.write(lines)
    } catch (error) {
      fault = error
      givenUp.abort()
    }
  }
  const signal = AbortSignal.any([cli.signal, givenUp.signal])
  for (;;) {
    const output = createOutput(write)
    // Engines that are opened for the command write straight into the sink: one call is enough.
    const beside = findControlSocket(homeOf(cli.env)) !== null
    const args: ExportArgs = {
      collection,
      done,
      ...(offset === undefined ? {} : { offset }),
      ...(beside ? { bytesMax: callBytesMax } : {}),
    }
    try {
      const { points, next } = await execute(exportCommand, args, { env: cli.env, output, signal })
      if (fault !== undefined) throw fault
      done += points
      if (next === null) return done
      offset = next
    } catch (error) {
      throw fault ?? error
    } finally {
      output.end()
    }
  }
}

function openSink(file: string | undefined): Sink {
  if (file === undefined) return { write: (text) => writeWhole(1, text), finish() {}, abandon() {} }
  const partial = `${file}.${process.pid}.partial`
  const descriptor = openForWriting(partial)
  return {
    write: (text) => writeWhole(descriptor, text),
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
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') {
        throw new AppError('conflict', `The export ended early: ${describeError(error)}`)
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs)
    }
  }
}

export function registerExport(program: Program, cli: Cli): void {
  const command = program
    .command('export')
    .argument('<collection>', `of: ${collections.join(', ')}`)
    .description('the points of a collection as JSON lines, one record a line, for flotilla index-jsonl')
    .option('--output <file>', 'where to write them; default: standard output')
  describe(
    command,
    'flotilla export knowledgebase --output knowledgebase.jsonl\n' +
      'flotilla index-jsonl --input knowledgebase.jsonl --output index.stidx',
  ).action(async (collection: string, { output: file, json }: { output?: string; json?: boolean }) => {
    if (json && file === undefined) {
      throw new AppError('bad_request', 'With --json name a file by --output: the records are JSON lines.')
    }
    const sink = openSink(file)
    try {
      const records = await exportCollection(cli, collection, sink)
      sink.finish()
      if (json) console.log(JSON.stringify({ collection, records, file }))
      else console.error(`${records} records of ${collection}${file === undefined ? '' : ` are in ${file}`}`)
    } catch (error) {
      sink.abandon()
      throw error
    }
  })
}
