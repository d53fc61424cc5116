/** What a running platform refuses when the command line hands an operation to it. */

import { Type } from 'typebox'
import { describe, expect, it } from 'vitest'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import { defineOperation } from '#operations/operation.ts'
import type { Platform } from '#runtime/start/platform.ts'

const greet = defineOperation({
  name: 'greet',
  args: Type.Object({ name: Type.String(), times: Type.Optional(Type.Integer({ minimum: 1 })) }),
  run: async (_, { name, times = 1 }) => `hello ${name} `.repeat(times),
})
const search = defineOperation({
  name: 'search',
  needs: ['vectors'],
  args: Type.Object({}),
  run: async () => 'found',
})

// No engine is open, and neither operation touches the platform.
const handle = createControlHandler([greet, search])({ engines: {} } as Platform)
const ask = (operation: string, args: unknown) =>
  handle({ operation, args }, { item() {}, progress() {} }, new AbortController().signal)

describe('an operation that comes in over the control socket', () => {
  it('runs with arguments that fit its schema', async () => {
    expect(await ask('greet', { name: 'Ada', times: 2 })).toBe('hello Ada hello Ada ')
  })

  it.each([[{}], [{ name: 7 }], [{ name: 'Ada', times: 0 }], [null], ['Ada'], [[]]])(
    'is refused with the arguments %j',
    async (args) => {
      await expect(ask('greet', args)).rejects.toMatchObject({
        code: 'bad_request',
        message: expect.stringMatching(/^greet: ./),
      })
    },
  )

  it('is refused where its engines are not open, and where nobody knows it', async () => {
    await expect(ask('search', {})).rejects.toMatchObject({ code: 'conflict' })
    await expect(ask('dance', {})).rejects.toMatchObject({ code: 'not_found' })
  })

  it('has a name of its own', () => {
    const names = operations.map(({ name }) => name)
    expect(names).toEqual([...new Set(names)])
  })
})
