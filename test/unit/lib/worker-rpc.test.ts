/** Calls into a worker thread: results, faults, events, bounds, and the end of the thread. */

import { afterEach, expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import type { EchoHandlers } from '#test/support/echo-thread.ts'

let client: WorkerClient<EchoHandlers>

function open(callsMax = 10) {
  client = openWorker<EchoHandlers>(
    {
      entry: new URL('../../support/echo-thread.ts', import.meta.url),
      name: 'echo',
      data: { greeting: 'hello' },
      callsMax,
    },
    () => new AppError('vector_engine_unavailable', 'The thread ended.'),
  )
  return client
}

afterEach(() => client.terminate())

test('a call answers, a fault keeps its code, buffers are moved', async () => {
  const { call } = open()
  await expect(call.greet('agent')).resolves.toBe('hello, agent')
  await expect(call.refuse()).rejects.toMatchObject({ name: 'AppError', code: 'rate_limited', retryAfter: 3 })
  await expect(call.fail()).rejects.toMatchObject({ message: 'broken', code: '23505' })
  expect((await call.bytes(16)).byteLength).toBe(16)
})

test('the thread can send unrequested messages', async () => {
  const { call, on } = open()
  const said = new Promise<string>((resolve) => on('said', resolve))
  await call.announce('ready')
  await expect(said).resolves.toBe('ready')
})

test('a thread that dies fails open and later calls', async () => {
  const { call } = open()
  const hanging = call.hang()
  const dying = call.die()
  await expect(hanging).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
  await expect(dying).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
  await expect(call.greet('x')).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
})

test('the number of open calls is bounded', async () => {
  const { call } = open(2)
  const first = call.hang()
  const second = call.hang()
  await expect(call.greet('third')).rejects.toMatchObject({ code: 'overloaded' })
  await client.terminate()
  await expect(first).rejects.toThrow()
  await expect(second).rejects.toThrow()
})
