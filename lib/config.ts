/** Typed configuration from environment variables: the type is the schema's, all faults come in one message. */

import type { Static, TObject, TSchema } from 'typebox'
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
      `Mend these environment variables: ${[...new Set(faults)].join('; ')}`,
    )
  }
  return value as Static<S>
}
