/** The question of an agent as words of a chat. */

import { confirmation, confirmedIn } from '#client/answer-parts.ts'
import type { Question } from '../../state/types.ts'

/** What the agent said besides its calls was said before. */
export function questionWords({ calls }: Pick<Question, 'calls'>): string {
  return calls.map(callWords).join('\n\n')
}

function callWords({ name, args }: Question['calls'][number]): string {
  if (name === confirmation) {
    const { hint, name: called, args: given } = confirmedIn(args)
    return `${hint === '' ? '' : `${hint}\n\n`}Approve or refuse: ${shownCall(called, given)}`
  }
  const { message } = (args ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : `Waits for the answer of ${shownCall(name, args)}`
}

/** Where the arguments were too long for the question, without them. */
function shownCall(name: string, args: unknown): string {
  return `${name || 'a tool'}${args === undefined ? '' : ` ${JSON.stringify(args)}`}`
}
