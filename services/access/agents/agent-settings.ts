/** What operators may set of an agent, and the check of it. */

import { invalidField } from '#lib/errors.ts'

export const accessLevels = ['admin', 'member', 'viewer'] as const
export type Access = (typeof accessLevels)[number]

export const tiers = ['agent', 'research-agent', 'infra-architect'] as const
export type Tier = (typeof tiers)[number]

export const agentIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const labelLengthMax = 64
/** More than this belongs to a tier without limits: the rule keeps a time for each operation of a second. */
const ownFigureMax = 10_000

/** What an operator may set. A figure wins over the tier's own; null gives that one back. */
export interface AgentSettings {
  name?: string
  role?: string
  access?: Access
  tier?: Tier
  quota?: number | null
  burst?: number | null
  concurrent?: number | null
}

/** By default its name is the agent id. */
export interface NewAgent extends AgentSettings {
  agentId: string
}

/** Throws AppError `validation_failed`. */
export function checkNewAgent(input: NewAgent): void {
  checkAgentId(input.agentId)
  checkSettings(input)
}

/** Throws AppError `validation_failed`. */
export function checkAgentId(agentId: string): void {
  if (agentIdPattern.test(agentId)) return
  throw invalidField(
    'agent_id',
    'must have 1 to 64 letters, digits, dots, underscores or hyphens, and begin with a letter or digit',
  )
}

/** Throws AppError `validation_failed`. */
export function checkSettings({ role, name, access, tier, quota, burst, concurrent }: AgentSettings): void {
  for (const [field, label] of Object.entries({ role, name })) {
    if (label === undefined || isLabel(label)) continue
    throw invalidField(field, `must have 1 to ${labelLengthMax} characters`)
  }
  if (access !== undefined && !accessLevels.includes(access)) {
    throw invalidField('access', `must be one of ${accessLevels.join(', ')}`)
  }
  if (tier !== undefined && !tiers.includes(tier)) {
    throw invalidField('tier', `must be one of ${tiers.join(', ')}`)
  }
  if (!isFigure(quota, 0, Number.MAX_SAFE_INTEGER)) {
    throw invalidField('quota', 'must be a whole number of operations a day, 0 or more')
  }
  for (const [field, figure] of Object.entries({ burst, concurrent })) {
    if (isFigure(figure, 1, ownFigureMax)) continue
    throw invalidField(field, `must be a whole number from 1 to ${ownFigureMax}`)
  }
}

/** Text of `least` to 64 characters that the database takes. */
export function isLabel(text: string, least = 1): boolean {
  const length = [...text].length
  return length >= least && length <= labelLengthMax && !text.includes('\0') && text.isWellFormed()
}

function isFigure(value: number | null | undefined, least: number, most: number): boolean {
  if (value === null || value === undefined) return true
  return Number.isSafeInteger(value) && value >= least && value <= most
}
