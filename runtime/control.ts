/**
 * The control socket: commands come in from the `flotilla` command as one JSON line each, and their answers go back as
 * JSON lines, so that a command works beside the process that owns the embedded engines.
 */

import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { AppError, describeError, type ErrorCode } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { isAlive, writeByRename } from './addresses.ts'

/** The system's limit of a socket's path is 104 bytes on macOS and 108 on Linux. */
const socketPathBytesMax = 100
const requestBytesMax = 8 * 1024 * 1024
const connectionsMax = 32
const unreadBytesMax = 64 * 1024 * 1024

export interface ControlRequest {
  command: string
  args: Record<string, unknown>
}

/** What a command tells while it runs, beside its result. */
export interface Output {
  /** One item of a stream (a record, a refreshed table). */
  item(value: unknown): void
  progress(state: Progress): void
}

export interface Progress {
  label: string
  done: number
  total: number
}

type Answer =
  | { kind: 'item'; value: unknown }
  | { kind: 'progress'; value: Progress }
  | { kind: 'result'; value: unknown }
  | { kind: 'error'; code: ErrorCode; message: string }

export type ControlHandler = (
  request: ControlRequest,
  output: Output,
  signal: AbortSignal,
) => Promise<unknown>

/** Listens on a socket that only this user may open, and records its path in `run/control.json`. */
export async function openControlServer(home: string, handle: ControlHandler): Promise<Closeable> {
  const record = controlRecordPath(home)
  const { path, folder } = socketPlace(home)
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    serve(socket, handle)
  })
  server.maxConnections = connectionsMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  // The folder is private already; the socket's own mode says so once more.
  chmodSync(path, 0o600)
  writeByRename(record, { socket: path, pid: process.pid })
  return {
    async close() {
      rmSync(record, { force: true })
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
      if (folder) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The socket of the process that runs on this data directory, or null. */
export function findControlSocket(home: string): string | null {
  try {
    const record = JSON.parse(readFileSync(controlRecordPath(home), 'utf8')) as {
      socket: string
      pid: number
    }
    return isAlive(record.pid) ? record.socket : null
  } catch {
    return null
  }
}

/** Nobody listens: the process that recorded the socket is gone, whoever has its process id now. */
export class ControlUnreachable extends Error {}

/**
 * Runs a command in the process behind the socket. Rejects with ControlUnreachable when nothing was sent; otherwise
 * with the AppError that the command met there. Aborting the signal ends the command.
 */
export function callControl(
  socketPath: string,
  request: ControlRequest,
  output: Output,
  signal?: AbortSignal,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath)
    let connected = false
    const gone = () => {
      if (!connected && !signal?.aborted) return reject(new ControlUnreachable('nobody listens'))
      const message = 'The platform went away before it answered; start it and try again.'
      reject(new AppError('shutting_down', message))
    }
    signal?.addEventListener('abort', () => socket.destroy(), { once: true })
    socket.once('connect', () => {
      connected = true
      socket.write(`${JSON.stringify(request)}\n`)
    })
    socket.on('error', gone)
    socket.on('close', gone)
    const lines = createInterface({ input: socket })
    // It tells the socket's errors once more.
    lines.on('error', gone)
    lines.on('line', (line) => {
      const answer = JSON.parse(line) as Answer
      if (answer.kind === 'item') return output.item(answer.value)
      if (answer.kind === 'progress') return output.progress(answer.value)
      if (answer.kind === 'result') resolve(answer.value)
      else reject(new AppError(answer.code, answer.message))
      socket.destroy()
    })
  })
}

/** One request a connection; a connection that closes ends its command. */
function serve(socket: Socket, handle: ControlHandler): void {
  const ended = new AbortController()
  const send = (answer: Answer) => {
    if (socket.writable) socket.write(`${JSON.stringify(answer)}\n`)
    // A reader that stopped reading ends its own command.
    if (socket.writableLength > unreadBytesMax) socket.destroy()
  }
  const run = async (line: string) => {
    try {
      const request = JSON.parse(line) as ControlRequest
      const output: Output = {
        item: (value) => send({ kind: 'item', value }),
        progress: (value) => send({ kind: 'progress', value }),
      }
      send({ kind: 'result', value: (await handle(request, output, ended.signal)) ?? null })
    } catch (error) {
      send(errorAnswer(error))
    }
    socket.end()
  }
  let received = ''
  socket.setEncoding('utf8')
  const onData = (chunk: string) => {
    received += chunk
    const end = received.indexOf('\n')
    if (end === -1 && received.length <= requestBytesMax) return
    socket.off('data', onData)
    socket.resume()
    if (end === -1) socket.destroy()
    else void run(received.slice(0, end))
  }
  socket.on('data', onData)
  socket.on('error', () => socket.destroy())
  socket.on('close', () => ended.abort())
}

/** The reader is the operator who owns the socket, so an unexpected fault is told, cut. */
function errorAnswer(error: unknown): Answer {
  return error instanceof AppError
    ? { kind: 'error', code: error.code, message: error.message }
    : { kind: 'error', code: 'internal_error', message: describeError(error) }
}

function controlRecordPath(home: string): string {
  return join(home, 'run', 'control.json')
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
