/** Builds an index file from JSON lines: next to the old one, which it replaces in one step when it is whole. */

import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { analyzer as ours } from './analysis/analyzer.ts'
import { Catalogue } from './build/catalogue.ts'
import { openFileSink } from './build/file-sink.ts'
import { writeIndex } from './build/index-writer.ts'
import { createRecordEncoder, idOf } from './build/records.ts'
import { RunCollector } from './build/runs.ts'
import { eachValue } from './build/values.ts'
import type { Analyzer, BuildReport, JsonlFault, ReadJsonl } from './contract.ts'
import { SearchFault } from './fault.ts'
import { magic, textFields } from './format.ts'
import { readJsonl } from './jsonl.ts'

export interface BuildOptions {
  /** A JSONL file; `-` is standard input. */
  input: string
  output: string
  /** Stop at the first faulty line and leave the old index as it is. */
  strict?: boolean
  /** Replace a file at `output` that is no index; a device, folder or pipe is never replaced. */
  force?: boolean
  onFault?(fault: JsonlFault): void
  /** Bytes of the input; `totalBytes` is 0 where it is not known. */
  onProgress?(readBytes: number, totalBytes: number): void
  /** After a run was written, now and then in merging, and for large records: much memory has become garbage. */
  onSpill?(): void
  /** For tests. */
  analyzer?: Analyzer
  read?: ReadJsonl
  listBytesHeldMax?: number
  broadFrom?: number
}

/** From here on it pays to collect what reading and storing a body leaves behind. */
const largeBodyLength = 1 << 22

/** @throws SearchFault where input or output cannot be used; the file at `output` is then untouched. */
export function buildIndex(options: BuildOptions): BuildReport {
  const output = realPath(options.output)
  refuseForeign(output, options.output, options.force === true)
  const folder = makeBuildFolder(output)
  try {
    const collected = collect(options, folder)
    collected.onSpill()
    const file = join(folder, 'index')
    const bytes = writeIndex(file, collected)
    renameSync(file, output)
    syncFolder(dirname(output))
    const { count, duplicates } = collected.catalogue
    return { records: count - duplicates, duplicates, faults: collected.faults, bytes }
  } catch (error) {
    throw asFault(error, options.output)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function collect(options: BuildOptions, folder: string) {
  const { strict = false, onFault, onProgress, analyzer = ours, read = readJsonl } = options
  const catalogue = new Catalogue()
  const runs = new RunCollector(folder, analyzer, options.listBytesHeldMax, options.onSpill)
  const recordsFile = join(folder, 'records')
  const records = openFileSink(recordsFile)
  const encodeRecord = createRecordEncoder()
  const names = textFields.map((field) => analyzer.hasExactForms(field))
  let faults = 0
  try {
    read(options.input, {
      record(record) {
        const id = idOf(record)
        // Its line is garbage now, and its stored form as soon as it is written.
        const isLarge = record.body.length > largeBodyLength
        if (isLarge) options.onSpill?.()
        const number = catalogue.add(id, record, records.position(), analyzer)
        records.write(encodeRecord(id, record.source))
        if (isLarge) options.onSpill?.()
        textFields.forEach((name, field) => {
          if (record[name] === '') return
          catalogue.setWords(number, field, runs.addText(record[name], number, field, names[field]!))
        })
        eachValue(record.source, (field, value) => runs.addValue(field, value, number))
        runs.endRecord()
      },
      fault(fault) {
        faults++
        if (strict) throw new SearchFault('bad_input', `line ${fault.line}: ${fault.message}`)
        onFault?.(fault)
      },
      ...(onProgress ? { progress: onProgress } : {}),
    })
    records.flush()
  } finally {
    records.close()
  }
  return {
    folder,
    catalogue,
    recordsFile,
    recordsBytes: records.position(),
    eachTerm: runs.finish(),
    analyzer,
    onSpill: options.onSpill ?? (() => {}),
    broadFrom: options.broadFrom,
    faults,
  }
}

/** A name mistyped must not cost a file: only an index, or an empty file, is replaced, and never a device or a pipe. */
function refuseForeign(output: string, shown: string, force: boolean): void {
  let fd: number
  try {
    // Opening a pipe would wait for its other end.
    if (!isReplaceable(statSync(output))) {
      throw new SearchFault('cannot_write', `${shown} is no regular file: it is not overwritten`)
    }
    fd = openSync(output, 'r')
  } catch (error) {
    if (error instanceof SearchFault) throw error
    // A missing file, or one that cannot be opened, fails again when the index is put there.
    return
  }
  try {
    const start = Buffer.alloc(magic.length)
    const length = fstatSync(fd).isFile() ? readSync(fd, start, 0, start.length, 0) : 0
    if (!force && length > 0 && start.toString('latin1', 0, length) !== magic) {
      throw new SearchFault(
        'cannot_write',
        `${shown} is no ${magic} index: it is not overwritten without --force`,
      )
    }
  } catch (error) {
    throw asFault(error, shown)
  } finally {
    closeSync(fd)
  }
}

/** The file behind a link: a build replaces it, and not the link. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}

/** A folder is refused by the rename, in its own words. */
function isReplaceable(stat: Stats): boolean {
  return stat.isFile() || stat.isDirectory()
}

/** Next to the output, so that a rename suffices; those of builds that were killed are cleared away. */
function makeBuildFolder(output: string): string {
  const parent = dirname(output)
  const prefix = `.${basename(output)}.building-`
  try {
    for (const name of readdirSync(parent)) {
      const owner = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : Number.NaN
      if (Number.isInteger(owner) && !isRunning(owner))
        rmSync(join(parent, name), { recursive: true, force: true })
    }
    const folder = join(parent, prefix + process.pid)
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder)
    return folder
  } catch (error) {
    throw asFault(error, output)
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** So that the new name survives a power cut; Windows knows no such thing for folders. */
function syncFolder(folder: string): void {
  if (process.platform === 'win32') return
  const fd = openSync(folder, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

const reasons: Record<string, string> = {
  ENOSPC: 'no space is left on the disk',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'the file would be larger than is allowed',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOENT: 'there is no such folder',
  ENOTDIR: 'there is no such folder',
  EISDIR: 'it is a folder',
  ENOTEMPTY: 'it is a folder',
}

function asFault(error: unknown, output: string): unknown {
  if (error instanceof SearchFault) return error
  const code = (error as NodeJS.ErrnoException).code
  if (code === undefined) return error
  return new SearchFault('cannot_write', `cannot write ${output}: ${reasons[code] ?? code}`)
}
