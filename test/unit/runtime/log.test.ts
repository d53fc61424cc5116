/** Logs of a process. */

import { expect, test } from 'vitest'
import { createLog } from '#runtime/log.ts'

test('a process listens for its exit once, however many logs it makes', () => {
  createLog()
  const before = process.listenerCount('exit')
  for (let n = 0; n < 20; n++) createLog({ level: 'warn' })
  expect(process.listenerCount('exit')).toBe(before)
})
