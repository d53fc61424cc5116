/** A worker thread for the tests of lib/worker-rpc.ts. */

import { AppError } from '#lib/errors.ts'
import { emit, ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'

const handlers = {
  greet: (name: string) => `${ownData<{ greeting: string }>().greeting}, ${name}`,
  refuse: () => {
    throw new AppError('rate_limited', 'slow down', { retryAfter: 3 })
  },
  fail: () => {
    throw Object.assign(new Error('broken'), { code: '23505' })
  },
  bytes: (length: number) => {
    const buffer = new ArrayBuffer(length)
    return new Transferred(buffer, [buffer])
  },
  announce: (text: string) => emit('said', text),
  die: () => process.exit(3),
  hang: () => new Promise<void>(() => {}),
}

export type EchoHandlers = typeof handlers

serveWorker(handlers)
