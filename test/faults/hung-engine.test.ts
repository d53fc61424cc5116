/** An engine that takes requests and answers none: index writers wait for it and give nothing up. */

import { expect, it } from 'vitest'
import { type BatchOutcome, done } from '#lib/outcome.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { eventually } from '#test/support/eventually.ts'
import { openIndexLog } from '#test/support/index-writer.ts'

it('waits for it however long, and applies what waited when it answers', async () => {
  const failures: unknown[] = []
  const index = await openIndexLog(async (text, params) => {
    if (text.includes('operation_failures')) failures.push(params)
    return { rows: [] }
  })
  let hangs = true
  let calls = 0
  const applied: string[] = []
  const member = await index.startWriter({
    callTimeoutMs: 40,
    openGeneration: () => ({
      async handle(messages: Message<VectorUpsert>[], { signal }): Promise<BatchOutcome[]> {
        calls++
        if (hangs) await new Promise((resolve) => signal.addEventListener('abort', resolve))
        else applied.push(...messages.map(({ key }) => key))
        return messages.map(() => done)
      },
    }),
  })
  await member.gain([0])
  await index.put([{ id: 'a', payload: {}, operation: 'an-operation' }])
  // More often than a record is tried before it is given up.
  await eventually('it was tried many times', () => calls > 8, 60_000)
  expect(index.eventLog.records('vectors.commands.dead-letters')).toEqual([])
  expect(failures).toEqual([])
  hangs = false
  await eventually('it is applied', () => applied.length > 0, 60_000)
  expect(applied).toEqual(['posts/a'])
})
