/** Shapes that several actions and routes share. */

import { type TSchema, Type } from 'typebox'
import { accessLevels, tiers } from '#services/access/agents/agents.ts'

export const orNull = <S extends TSchema>(schema: S, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

export const time = Type.String({ format: 'date-time' })
export const role = Type.Enum([...accessLevels], { type: 'string', title: 'Role' })
export const tier = Type.Enum([...tiers], { type: 'string', title: 'Tier' })

/** A text of requests, at least a character long. */
export const textField = (description: string, example: string, maxLength = 512) =>
  Type.String({ minLength: 1, maxLength, description, examples: [example] })
