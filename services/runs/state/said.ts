/** What events say: their text, and whether the agent failed. */

import type { Content, RunEvent } from './types.ts'

const normalEnds: ReadonlySet<string> = new Set([
  'STOP',
  'END_TURN',
  'STOP_SEQUENCE',
  'TOOL_CALLS',
  'TOOL_USE',
])
/** The model had more to say: what it said is an answer. */
const cutEnds: ReadonlySet<string> = new Set(['MAX_TOKENS', 'LENGTH'])

/** Whether the event says that the agent failed. `hasSpoken`: there is text of it, in this event or before. */
export function isFault({ errorCode }: Pick<RunEvent, 'errorCode'>, hasSpoken: boolean): boolean {
  if (!errorCode) return false
  const reason = errorCode.toUpperCase()
  return !(normalEnds.has(reason) || (cutEnds.has(reason) && hasSpoken))
}

/** The text parts, without an agent's thoughts, calls of tools and their results. */
export function spokenText({ parts }: Content): string {
  return parts
    .filter(({ text, thought }) => typeof text === 'string' && thought !== true)
    .map(({ text }) => text)
    .join('\n\n')
}
