/**
 * The control socket: how the `flotilla` command hands an operation to the process that owns the embedded engines. It is
 * HTTP over a Unix socket; the answer is a stream of JSON lines: items and progress, then the result or an error.
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { AppError, describeError, type ErrorCode, type FieldError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { systemFault } from '#lib/system-faults.ts'
import { readRunFile, runFile, writeByRename } from './addresses.ts'

// An import of the module reads all that it exports, and so loads Node's WebSocket: 25 ms of every command.
const { createServer, request: openRequest } = process.getBuiltinModule('node:http')

/** The system's limit of a socket's path is 104 bytes on macOS and 108 on Linux. */
const socketPathBytesMax = 100
const requestBytesMax = 8 * 1024 * 1024
const connectionsMax = 32

export interface ControlRequest {
  operation: string
  args: unknown
  /** Name of the user of the system who runs the command. */
  user?: string
}

/** Where an operation puts what it has to say before its result. */
export interface Output<I = unknown> {
  /** One item of a stream (a record, a refreshed table). Wait for it: it resolves when the reader has room for more. */
  item(value: I): Promise<void> | void
  /** Left out where the reader is behind: the next one says more. */
  progress(state: Progress): void
}

export interface Progress {
  label: string
  done: number
  total: number
}

type Line =
  | { kind: 'item'; value: unknown }
  | { kind: 'progress'; value: Progress }
  | { kind: 'result'; value: unknown }
  | { kind: 'error'; code: ErrorCode; message: string; errors?: FieldError[] }

export type ControlHandler = (
  request: ControlRequest,
  output: Output,
  signal: AbortSignal,
) => Promise<unknown>

/** Listens on a socket that only this user may open, and records its path in `run/control.json`. */
export async function openControlServer(home: string, handle: ControlHandler): Promise<Closeable> {
  const record = runFile(home, 'control.json')
  const { path, folder } = socketPlace(home)
  const server = createServer((request, response) => void serve(request, response, handle))
  server.maxConnections = connectionsMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  // Its folder is private already; where that is changed by hand, the socket still is.
  chmodSync(path, 0o600)
  writeByRename(record, { socket: path, pid: process.pid })
  return {
    async close() {
      rmSync(record, { force: true })
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
      if (folder) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The socket of the process that runs on this data directory, or null. */
export function findControlSocket(home: string): string | null {
  return readRunFile<{ socket: string; pid: number }>(runFile(home, 'control.json'))?.socket ?? null
}

/** Nobody listens: the process that recorded the socket is gone, even if its process id is in use again. */
export class ControlUnreachable extends Error {}

/**
 * Runs an operation in the process behind the socket. Rejects with ControlUnreachable when nothing was sent; otherwise
 * with the AppError that the operation met there. Aborting the signal ends the operation.
 */
export async function callControl(
  socketPath: string,
  request: ControlRequest,
  output: Output,
  signal?: AbortSignal,
): Promise<unknown> {
  const response = await send(socketPath, request, signal)
  try {
    for await (const text of linesOf(response)) {
      const line = JSON.parse(text) as Line
      if (line.kind === 'result') return line.value
      if (line.kind === 'error') {
        const { code, message, errors } = line
        throw new AppError(code, message, errors ? { errors } : {})
      }
      if (line.kind === 'item') await output.item(line.value)
      else output.progress(line.value)
    }
  } finally {
    response.destroy()
  }
  throw wentAway()
}

/** Resolves with the beginning of the answer. */
function send(socketPath: string, request: ControlRequest, signal?: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = openRequest(
      {
        socketPath,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        agent: false,
        ...(signal ? { signal } : {}),
      },
      resolve,
    )
    sent.on('error', (error: NodeJS.ErrnoException) => {
      reject(error.syscall === 'connect' ? new ControlUnreachable('nobody listens') : wentAway())
    })
    sent.end(JSON.stringify(request))
  })
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  try {
    yield* createInterface({ input: response })
  } catch {
    // Cut off: the last line, which has the result, is missing.
  }
}

function wentAway(): AppError {
  return new AppError('shutting_down', 'The platform went away before it answered; start it and try again.')
}

/** A caller that goes away ends its operation; one that does not read lets it wait. */
async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  handle: ControlHandler,
): Promise<void> {
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  // A caller that goes away is not an error here.
  response.on('error', () => {})
  const write = (line: Line) => response.destroyed || response.write(`${JSON.stringify(line)}\n`)
  const output: Output = {
    async item(value) {
      if (!write({ kind: 'item', value })) await once(response, 'drain', { signal: gone.signal })
    },
    progress(value) {
      if (!response.writableNeedDrain) write({ kind: 'progress', value })
    },
  }
  try {
    const result = await handle(await readRequest(request), output, gone.signal)
    write({ kind: 'result', value: result ?? null })
  } catch (error) {
    write(errorLine(error))
  }
  response.end()
}

async function readRequest(request: IncomingMessage): Promise<ControlRequest> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > requestBytesMax) throw new AppError('payload_too_large', 'The request is too large.')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as ControlRequest
}

/** The reader is the operator who owns the socket, so unexpected errors are reported too, shortened. */
function errorLine(error: unknown): Line {
  const known = error instanceof AppError ? error : systemFault(error)
  return known
    ? {
        kind: 'error',
        code: known.code,
        message: known.message,
        ...(known.errors ? { errors: known.errors } : {}),
      }
    : { kind: 'error', code: 'internal_error', message: describeError(error) }
}

/** Below the data directory; where its path is too long for a socket, in a private folder for temporary files. */
function socketPlace(home: string): { path: string; folder: string | null } {
  const path = join(home, 'run', 'control.sock')
  if (Buffer.byteLength(path) <= socketPathBytesMax) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    rmSync(path, { force: true })
    return { path, folder: null }
  }
  const folder = mkdtempSync(join(tmpdir(), 'flotilla-'))
  return { path: join(folder, `${randomBytes(4).toString('hex')}.sock`), folder }
}
