/**
 * Reads settings from environment variables into the type that their schema describes, and reports all problems at
 * once.
 */

import { type Static, type TObject, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { AppError } from './errors.ts'

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
    const faults = [...Value.Errors(schema as TSchema, value)].map((fault) => {
      const name =
        fault.instancePath.slice(1) ||
        (fault as { params?: { requiredProperties?: string[] } }).params?.requiredProperties?.join(', ')
      return `${name}: ${fault.message}`
    })
    throw new AppError(
      'invalid_configuration',
      `Correct these environment variables: ${[...new Set(faults)].join('; ')}`,
    )
  }
  return value as Static<S>
}

/** An optional setting that holds any text but the empty one. */
export function optionalText(description: string) {
  return Type.Optional(Type.String({ minLength: 1, description }))
}

/**
 * Throws AppError `invalid_configuration` when `url` is set and is not a URL; it may hold a password, so it is not
 * quoted.
 */
export function requireUrl(name: string, url: string | undefined): void {
  if (url === undefined || URL.canParse(url)) return
  throw new AppError('invalid_configuration', `${name} is not a URL.`)
}
