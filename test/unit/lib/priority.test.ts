/** Other work goes first, without slowing the rest of the process down. */

import { once } from 'node:events'
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'

test.runIf(process.platform === 'linux')('a thread steps back alone', async () => {
  const before = getPriority()
  const entry = new URL('../../../lib/giving-way.ts', import.meta.url)
  const code = `
    const { parentPort } = require('node:worker_threads')
    const { getPriority } = require('node:os')
    import(${JSON.stringify(entry.href)}).then(({ lowerPriority }) => {
      lowerPriority('thread')
      parentPort.postMessage(getPriority())
    })`
  const worker = new Worker(code, { eval: true })
  const [priority] = await once(worker, 'message')
  expect(priority).toBe(5)
  expect(getPriority()).toBe(before)
  await worker.terminate()
})
