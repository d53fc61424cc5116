/** Settings from environment variables: their types, defaults and problems. */

import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { checkConfiguration, loadConfig, optionalUrl } from '#lib/config.ts'
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
  expect(load).toThrow('PORT is "70000": a whole number from 0 to 65,535; STRICT is "perhaps": true or false')
  expect(load).toThrow(AppError)
  expect(load).toThrow(/PORT.*STRICT|STRICT.*PORT/s)
  expect(load).toThrow(/NEEDED/)
})

test('a variable whose name says that it is a secret is not quoted', () => {
  const secrets = Type.Object({ KEY_TTL_S: Type.Integer({ minimum: 1, maximum: 3_600, default: 60 }) })
  expect(() => loadConfig(secrets, { KEY_TTL_S: 'sk-1' })).toThrow(
    'KEY_TTL_S is not valid: a whole number from 1 to 3,600.',
  )
})

test('an enumeration lists the allowed values, and a URL is not quoted', () => {
  const kinds = Type.Object({ LEVEL: Type.Enum(['low', 'high']), URL: optionalUrl('an address') })
  const load = () => loadConfig(kinds, { LEVEL: 'loud', URL: 'no url: s3cret' })
  expect(load).toThrow('LEVEL is "loud": low or high; URL is not a URL.')
  expect(load).not.toThrow(/s3cret/)
})

test('one message has what the schema and all checks find, each fault once', () => {
  const check = (sound: Record<string, string | undefined>) => {
    loadConfig(schema, sound)
    throw new AppError('invalid_configuration', 'USER and PASSWORD belong together.')
  }
  const run = () => checkConfiguration(schema, { NEEDED: 'x', PORT: '70000' }, [check, check, () => {}])
  expect(run).toThrow(/^[^\n]*PORT[^\n]*\nUSER and PASSWORD belong together\.$/)
  expect(() => checkConfiguration(schema, { NEEDED: 'x' }, [() => {}])).not.toThrow()
  const broken = () => {
    throw new TypeError('a bug')
  }
  expect(() => checkConfiguration(schema, { NEEDED: 'x' }, [broken])).toThrow(TypeError)
})
