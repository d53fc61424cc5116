/** The environment variable that chooses and reaches the schema registry. */

import { Type } from 'typebox'
import { optionalUrl } from '#lib/config.ts'

export const schemaRegistrySettings = Type.Object({
  SCHEMA_REGISTRY_URL: optionalUrl('Confluent-compatible API; without it the schemas folder'),
})
