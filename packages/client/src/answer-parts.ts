/** What people type to answer a question, as parts of a message: the same at the command line, in chats and in the console. */

import type { Part, Question } from './run-types.ts'

/** The name of ADK's call that asks for an approval. */
export const confirmation = 'adk_request_confirmation'
const approvals: ReadonlyMap<string, boolean> = new Map([
  ['approve', true],
  ['yes', true],
  ['refuse', false],
  ['no', false],
])

/** What a confirmation is about, by the arguments of ADK's call: the call that the agent wants to make. */
export function confirmedIn(args: unknown): { hint: string; name: string; args?: unknown } {
  const { toolConfirmation, originalFunctionCall } = record(args)
  const { hint } = record(toolConfirmation)
  const { name, args: original } = record(originalFunctionCall)
  return {
    hint: typeof hint === 'string' ? hint : '',
    name: typeof name === 'string' ? name : '',
    args: original,
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** The response of a confirmation. */
export function confirmationPart(id: string, confirmed: boolean): Part {
  return { functionResponse: { id, name: confirmation, response: { confirmed } } }
}

/** One of the words above alone is the response of each confirmation that the question asks for, all else text. */
export function answerParts({ calls }: Pick<Question, 'calls'>, text: string): Part[] {
  const confirmed = approvals.get(text.trim().toLowerCase())
  const asked = calls.filter(({ name }) => name === confirmation)
  if (confirmed === undefined || asked.length === 0) return [{ text }]
  return asked.map(({ id }) => confirmationPart(id, confirmed))
}
