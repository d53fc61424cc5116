/**
 * Typed calls into a worker thread and events out of it: each embedded engine runs in a thread of its own.
 *
 * What libraries lack: comlink leaves calls open for ever when the thread dies, bounds nothing and loses the code of
 * an error; tinypool and piscina run tasks on any of many equal threads, while an engine is one thread that owns its
 * files.
 */

import { type MessagePort, parentPort, type TransferListItem, Worker, workerData } from 'node:worker_threads'
import { AppError, type ErrorCode, type FieldError, overloaded } from './errors.ts'

type Handlers = Record<string, (...args: never[]) => unknown>

interface Request {
  id: number
  method: string
  args: unknown[]
}

interface WireError {
  message: string
  name: string
  code?: string
  app?: { code: ErrorCode; statusCode: number; retryAfter?: number; errors?: FieldError[] }
}

type Reply =
  | { id: number; value: unknown }
  | { id: number; error: WireError }
  | { event: string; data: unknown }

/** A result whose buffers are moved, not copied, to the caller. */
export class Transferred<T> {
  readonly value: T
  readonly transfer: TransferListItem[]
  constructor(value: T, transfer: TransferListItem[]) {
    this.value = value
    this.transfer = transfer
  }
}

type WorkerMethods<H extends Handlers> = {
  [M in keyof H]: (
    ...args: Parameters<H[M]>
  ) => Promise<Awaited<ReturnType<H[M]>> extends Transferred<infer T> ? T : Awaited<ReturnType<H[M]>>>
}

export interface WorkerClient<H extends Handlers> {
  call: WorkerMethods<H>
  /** As `call`, moving `transfer` into the worker. */
  send(method: keyof H & string, args: unknown[], transfer: TransferListItem[]): Promise<unknown>
  on(event: string, listener: (data: never) => void): void
  /** Ends the thread. Calls that are still open fail. Idempotent. */
  terminate(): Promise<void>
}

interface WorkerOptions {
  /** Entry file: a `new URL` of a literal path and `import.meta.url`, by which the build of the package finds it. */
  entry: URL
  name: string
  data?: unknown
  /** Calls that may be open at once; one more fails with `overloaded`. Default 10,000. */
  callsMax?: number
  /** Old-space limit of the thread in MB. */
  heapMbMax?: number
}

/** Starts the thread. Whatever ends it by itself fails all open and later calls with `diedWith`. */
export function openWorker<H extends Handlers>(
  options: WorkerOptions,
  diedWith: (cause: unknown) => AppError,
): WorkerClient<H> {
  const open = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  const listeners = new Map<string, (data: never) => void>()
  const callsMax = options.callsMax ?? 10_000
  let nextId = 1
  let dead: AppError | undefined
  const worker = new Worker(options.entry, {
    name: options.name,
    workerData: options.data,
    ...(options.heapMbMax === undefined
      ? {}
      : { resourceLimits: { maxOldGenerationSizeMb: options.heapMbMax } }),
  })
  worker.on('message', (reply: Reply) => {
    // A message carries no types: both sides agree on them by the handlers' type and the events' names.
    if ('event' in reply) return listeners.get(reply.event)?.(reply.data as never)
    const call = open.get(reply.id)
    if (!call) return
    open.delete(reply.id)
    if ('error' in reply) call.reject(fromWire(reply.error))
    else call.resolve(reply.value)
  })
  const die = (cause: unknown) => {
    dead ??= diedWith(cause)
    for (const call of open.values()) call.reject(dead)
    open.clear()
  }
  worker.on('error', die)
  worker.on('exit', (code) => die(new Error(`the ${options.name} thread ended with code ${code}`)))

  function send(method: string, args: unknown[], transfer: TransferListItem[] = []): Promise<unknown> {
    if (dead) return Promise.reject(dead)
    if (open.size >= callsMax) return Promise.reject(overloaded('Too many calls are waiting'))
    return new Promise((resolve, reject) => {
      const id = nextId++
      open.set(id, { resolve, reject })
      try {
        worker.postMessage({ id, method, args } satisfies Request, transfer)
      } catch (error) {
        open.delete(id)
        reject(error)
      }
    })
  }
  const call = new Proxy({} as WorkerMethods<H>, {
    get:
      (_, method: string) =>
      (...args: unknown[]) =>
        send(method, args),
  })
  return {
    call,
    send,
    on: (event, listener) => listeners.set(event, listener),
    async terminate() {
      await worker.terminate()
    },
  }
}

/** Worker side: answers calls with `handlers`. A handler may return a Transferred to move its buffers. */
export function serveWorker(handlers: Handlers): void {
  const port = parentPort as MessagePort
  port.on('message', async ({ id, method, args }: Request) => {
    try {
      // As above: the caller's types are those of the handler.
      const value = await handlers[method]!(...(args as never[]))
      if (value instanceof Transferred) port.postMessage({ id, value: value.value }, value.transfer)
      else port.postMessage({ id, value })
    } catch (error) {
      port.postMessage({ id, error: toWire(error) })
    }
  })
}

/** Worker side: sends the main thread an event that it did not ask for. */
export function emit(event: string, data: unknown): void {
  parentPort!.postMessage({ event, data })
}

/** Worker side: what `openWorker` was given as `data`. */
export function ownData<T>(): T {
  return workerData as T
}

function toWire(error: unknown): WireError {
  if (!(error instanceof Error)) return { message: String(error), name: 'Error' }
  const wire: WireError = { message: error.message, name: error.name }
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string') wire.code = code
  if (error instanceof AppError) {
    wire.app = { code: error.code, statusCode: error.statusCode }
    if (error.retryAfter !== undefined) wire.app.retryAfter = error.retryAfter
    if (error.errors) wire.app.errors = error.errors
  }
  return wire
}

function fromWire(wire: WireError): Error {
  if (wire.app) return new AppError(wire.app.code, wire.message, wire.app)
  const error = new Error(wire.message)
  error.name = wire.name
  return wire.code === undefined ? error : Object.assign(error, { code: wire.code })
}
