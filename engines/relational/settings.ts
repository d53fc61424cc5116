/** The environment variable that chooses and reaches the relational engine and its mirror. */

import { Type } from 'typebox'
import { optionalUrl } from '#lib/config.ts'

export const relationalSettings = Type.Object({
  DATABASE_URL: optionalUrl('postgres://…; without it Postgres is embedded'),
})
