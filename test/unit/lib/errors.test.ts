/** Messages of thrown values. */

import { expect, test } from 'vitest'
import { AppError, describeError, whyWaiting } from '#lib/errors.ts'

test.each([
  [new TypeError('wrong'), 'TypeError: wrong'],
  // As WebAssembly's runtime throws it.
  [
    { name: 'ExitStatus', message: 'Program terminated with exit(1)', status: 1 },
    'ExitStatus: Program terminated with exit(1)',
  ],
  [{ message: 'no name' }, 'Error: no name'],
  ['text', 'text'],
  [undefined, 'undefined'],
  [null, 'null'],
])('any thrown thing gets a short text', (thrown, text) => {
  expect(describeError(thrown)).toBe(text)
})

test('a long text is cut', () => {
  expect(describeError(new Error('x'.repeat(1_000)), 20)).toBe(`Error: ${'x'.repeat(13)}…`)
})

test('whoever waits for an engine says what began it', () => {
  const refused = new Error('password authentication failed')
  const away = new AppError('relational_engine_unavailable', 'It does not answer.', {
    cause: new AggregateError([refused]),
  })
  expect(whyWaiting(away)).toMatchObject({
    reason: 'It does not answer.',
    hint: expect.stringContaining('DATABASE_URL'),
    cause: 'Error: password authentication failed',
  })
  expect(whyWaiting(refused)).not.toHaveProperty('cause')
})
