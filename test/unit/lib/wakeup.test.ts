/** Pauses that whoever has new work ends early. */

import { expect, test } from 'vitest'
import { createWakeup } from '#lib/backoff.ts'

const long = 60_000
const never = new AbortController().signal

test('a pause ends when it is woken, when the signal aborts, and by itself', async () => {
  const { wake, sleep } = createWakeup()
  const stop = new AbortController()
  const woken = sleep(long, never)
  wake()
  await woken
  const stopped = sleep(long, stop.signal)
  stop.abort()
  await stopped
  await sleep(1, never)
})

test('what woke nobody ends the next pause, and only that', async () => {
  const { wake, sleep } = createWakeup()
  wake()
  wake()
  await sleep(long, never)
  let ended = false
  const stop = new AbortController()
  const second = sleep(long, stop.signal).then(() => {
    ended = true
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(ended).toBe(false)
  stop.abort()
  await second
})
