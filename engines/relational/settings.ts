/** The environment variable that chooses and reaches the relational engine and its mirror. */

import { Type } from 'typebox'
import { optionalText } from '#lib/config.ts'

export const relationalSettings = Type.Object({
  DATABASE_URL: optionalText('postgres://…; without it Postgres is embedded'),
})
