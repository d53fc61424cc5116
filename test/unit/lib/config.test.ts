/** Settings from environment variables: their types, defaults and problems. */

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadConfig } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'

const schema = Type.Object({
  PORT: Type.Integer({ default: 8080, minimum: 0, maximum: 65_535 }),
  STRICT: Type.Boolean({ default: false }),
  NAME: Type.Optional(Type.String()),
  NEEDED: Type.String(),
})

test('text from the environment becomes the schema’s types, with defaults', () => {
  expect(loadConfig(schema, { NEEDED: 'x', STRICT: 'true', PORT: '0', OTHER: 'ignored' })).toEqual({
    NEEDED: 'x',
    STRICT: true,
    PORT: 0,
  })
})

test('an empty variable counts as unset', () => {
  expect(loadConfig(schema, { NEEDED: 'x', NAME: '', PORT: '' })).toEqual({
    NEEDED: 'x',
    STRICT: false,
    PORT: 8080,
  })
})

test('all faults come in one message that names the variables', () => {
  const load = () => loadConfig(schema, { PORT: '70000', STRICT: 'perhaps' })
  expect(load).toThrow(AppError)
  expect(load).toThrow(/PORT.*STRICT|STRICT.*PORT/s)
  expect(load).toThrow(/NEEDED/)
})
