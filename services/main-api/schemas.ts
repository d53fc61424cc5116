/** Shapes that several routes of the main API share. */

import { type TSchema, Type } from 'typebox'
import { validationFailed } from '#runtime/http/validation.ts'
import { accessLevels, tiers } from '#services/access/agents/agents.ts'

export const orNull = <S extends TSchema>(schema: S, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

export const time = Type.String({ format: 'date-time' })

/** Queries are text: a whole number from 0 on. */
export const wholeNumber = (description: string, example: string) =>
  Type.String({ pattern: '^\\d{1,15}$', description, examples: [example] })

/** What `wholeNumber` took for a field, from 1 to `max`. Throws AppError `validation_failed`. */
export function numberUpTo(max: number, field: string, text: string): number {
  const number = Number(text)
  if (number >= 1 && number <= max) return number
  throw validationFailed([{ path: `/${field}`, message: `must be 1 to ${max}` }])
}

export const name = (description: string, example: string, maxLength = 512) =>
  Type.String({ minLength: 1, maxLength, description, examples: [example] })

export const role = Type.Enum([...accessLevels], { type: 'string', title: 'Role' })
export const tier = Type.Enum([...tiers], { type: 'string', title: 'Tier' })

const figure = (description: string) => orNull(Type.Integer(), description)

/** What an operator may set of an agent, now or later. */
export const agentSettings = {
  role: Type.Optional(Type.String({ description: 'A free label.' })),
  access: Type.Optional(role),
  tier: Type.Optional(tier),
  quota: Type.Optional(orNull(Type.Integer({ minimum: 0 }), "null: the tier's own.")),
  burst: Type.Optional(orNull(Type.Integer({ minimum: 1 }), "null: the tier's own.")),
  concurrent: Type.Optional(orNull(Type.Integer({ minimum: 1 }), "null: the tier's own.")),
}

export const agentFields = {
  agent_id: Type.String(),
  uid: Type.String(),
  name: Type.String(),
  role: Type.String({ description: 'A free label.' }),
  access: role,
  tier,
  quota: figure("Operations a day; null: the tier's own."),
  burst: figure("Operations a second; null: the tier's own."),
  concurrent: figure("Operations at once; null: the tier's own."),
  public_key_fingerprint: Type.String({ description: 'OpenSSH form.' }),
}

export const agent = Type.Object(agentFields, { title: 'Agent' })
