/**
 * Reads settings from environment variables into the type that their schema describes, and reports all problems at
 * once.
 */

import { type Static, type TObject, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { AppError, type FieldError } from './errors.ts'
import { settingSentence, visible, wordedFaults } from './schema-faults.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads the schema's keys from `env`, converts text to the schema's types and applies defaults.
 * Throws AppError `invalid_configuration` that lists every faulty variable. Empty text counts as unset.
 */
export function loadConfig<S extends TObject>(schema: S, env: Environment): Static<S> {
  const raw: Record<string, unknown> = {}
  for (const key of Object.keys(schema.properties)) {
    const text = env[key]
    if (text !== undefined && text !== '') raw[key] = text
  }
  const value = Value.Convert(schema as TSchema, Value.Default(schema as TSchema, raw))
  if (!Value.Check(schema as TSchema, value)) {
    const errors = faultsOf(schema as TSchema, value, env)
    const lines = errors.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new AppError('invalid_configuration', `Correct these environment variables: ${lines}.`, { errors })
  }
  return value as Static<S>
}

/** Name and fault of each faulty variable. What refuses a URL does not show it: it may hold a password. */
function faultsOf(schema: TSchema, value: unknown, env: Environment): FieldError[] {
  const faults = wordedFaults(Value.Errors(schema, value), schema, value).map((found) => {
    const name = found.path.slice(1)
    if (found.fault === 'is required') return [name, 'must be set'] as const
    // As it was written, not as it was read.
    const shown = found.value === undefined ? found : { ...found, value: visible(env[name]) }
    return [name, settingSentence(shown)] as const
  })
  return [...new Map(faults)].map(([path, message]) => ({ path, message }))
}

/**
 * Runs checks of the configuration and reports what all of them found as one AppError `invalid_configuration`. Each gets
 * the environment without the variables that `schema` finds faulty, so that no fault is named twice.
 */
export function checkConfiguration(
  schema: TObject,
  env: Environment,
  checks: readonly ((sound: Environment) => void)[],
): void {
  const found: AppError[] = []
  const note = (check: () => unknown) => {
    try {
      check()
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'invalid_configuration')) throw error
      found.push(error)
    }
  }
  note(() => loadConfig(schema, env))
  const faulty = new Set(found.flatMap(({ errors = [] }) => errors.map(({ path }) => path)))
  const sound =
    faulty.size === 0 ? env : Object.fromEntries(Object.entries(env).filter(([name]) => !faulty.has(name)))
  for (const check of checks) note(() => check(sound))
  if (found.length === 0) return
  throw new AppError('invalid_configuration', [...new Set(found.map(({ message }) => message))].join('\n'), {
    errors: found.flatMap(({ errors = [] }) => errors),
  })
}

/** An optional setting that holds any text but the empty one. */
export function optionalText(description: string) {
  return Type.Optional(Type.String({ minLength: 1, description }))
}

/** An optional URL. It may hold a password, so no fault quotes it. */
export function optionalUrl(description: string) {
  return Type.Optional(
    Type.Refine(
      Type.String({ minLength: 1, description }),
      (url) => URL.canParse(url),
      () => 'is not a URL',
    ),
  )
}
