/** Why a model ended: some frameworks give the reason as an error code, also where nothing failed. */

import type { RunEvent } from './types.ts'

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
