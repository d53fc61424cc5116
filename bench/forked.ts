/** Calls into a process of its own: the measured code must not share an event loop with the code that measures. */

import { type ChildProcess, fork } from 'node:child_process'

type Handlers = Record<string, (argument: never) => unknown>

interface Request {
  id: number
  method: string
  argument: unknown
}

type Reply = { id: number; value: unknown } | { id: number; fault: string }

export interface Forked<H extends Handlers> {
  readonly pid: number
  call<M extends keyof H & string>(
    method: M,
    argument: Parameters<H[M]>[0],
  ): Promise<Awaited<ReturnType<H[M]>>>
  /** SIGTERM, and waits for its end. */
  close(): Promise<void>
}

/** Starts `entry`; its first call waits until it serves. */
export function openForked<H extends Handlers>(entry: URL, args: string[] = []): Forked<H> {
  const child: ChildProcess = fork(entry, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let ids = 0
  child.on('message', (reply: Reply) => {
    const caller = waiting.get(reply.id)
    waiting.delete(reply.id)
    if ('fault' in reply) caller?.reject(new Error(reply.fault))
    else caller?.resolve(reply.value)
  })
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code) => {
      for (const { reject } of waiting.values()) reject(new Error(`${entry.pathname} ended with ${code}`))
      resolve()
    })
  })
  return {
    pid: child.pid!,
    call: (method, argument) =>
      new Promise((resolve, reject) => {
        const id = ++ids
        waiting.set(id, { resolve: resolve as (value: unknown) => void, reject })
        child.send({ id, method, argument } satisfies Request)
      }),
    async close() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** The process's side. `stop` runs at its end, also when the bench was killed: nothing of a run may stay behind. */
export function serveForked(handlers: Handlers, stop: () => Promise<void>): void {
  process.on('message', async ({ id, method, argument }: Request) => {
    try {
      const value = await handlers[method]!(argument as never)
      process.send!({ id, value } satisfies Reply)
    } catch (error) {
      process.send!({ id, fault: error instanceof Error ? (error.stack ?? '') : String(error) })
    }
  })
  const end = async () => {
    await stop()
    process.exit(0)
  }
  process.once('SIGTERM', end)
  process.once('disconnect', end)
}

/** Milliseconds of a clock that all processes of this machine share. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Begins `count` pieces of work at an even pace, whatever each takes, and waits for all. */
export async function paced(
  perSecond: number,
  count: number,
  work: (at: number) => Promise<unknown>,
): Promise<void> {
  const begun = sharedNow()
  const all: Promise<unknown>[] = []
  for (let n = 0; n < count; n++) {
    const waitMs = begun + (n * 1_000) / perSecond - sharedNow()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    all.push(work(sharedNow()))
  }
  await Promise.all(all)
}
