/** Finds in the events of a run which calls a person or a program is to answer: those of long-running tools. */

import { confirmedIn } from '#client/answer-parts.ts'
import type { Question, RunEvent } from '../state/types.ts'

const callsMax = 16
const idLengthMax = 256
const nameLengthMax = 256
/** Arguments of all calls together, as JSON. */
const argsLengthMax = 8_192
const textLengthMax = 2_000

/**
 * Google ADK marks the event of such a call with `longRunningToolIds`; what the tool returned first, and words of the model, may
 * follow, so they ask until a message of the user has answered them.
 */
export class AskedCalls {
  readonly #calls = new Map<string, Question['calls'][number]>()
  #argsLength = 0

  /** `open`: calls of before that nobody has answered yet. */
  constructor(open: Question['calls']) {
    for (const call of open) this.#keep(call)
  }

  /** Whether the event asks what none before it did. */
  isNew(event: RunEvent): boolean {
    return idsOf(event).some((id) => !this.#calls.has(id))
  }

  add(event: RunEvent): void {
    for (const id of idsOf(event)) {
      if (this.#calls.has(id) || this.#calls.size >= callsMax) continue
      this.#keep({ id, ...callOf(event, id) })
    }
  }

  #keep({ id, name, args }: Question['calls'][number]): void {
    const length = JSON.stringify(args ?? null).length
    const fits = args !== undefined && this.#argsLength + length <= argsLengthMax
    if (fits) this.#argsLength += length
    this.#calls.set(id, { id, name, ...(fits ? { args } : {}) })
  }

  /** `said`: the agent's last words, where the calls have none of their own. */
  question(said: string): Question | null {
    if (this.#calls.size === 0) return null
    const calls = [...this.#calls.values()]
    const hints = calls.map(hintOf).filter((hint) => hint !== '')
    const text = (hints.join('\n') || said).replaceAll('\0', '\ufffd').slice(0, textLengthMax).toWellFormed()
    return { calls, text }
  }
}

function idsOf({ longRunningToolIds: ids }: RunEvent): string[] {
  if (!Array.isArray(ids)) return []
  return ids.filter((id) => typeof id === 'string' && id !== '' && id.length <= idLengthMax) as string[]
}

function callOf({ content }: RunEvent, id: string): { name: string; args?: unknown } {
  const calls = (content?.parts ?? []).map(
    ({ functionCall }) => (functionCall ?? {}) as Record<string, unknown>,
  )
  const call = calls.find((one) => one.id === id)
  const name = typeof call?.name === 'string' ? call.name.slice(0, nameLengthMax).toWellFormed() : ''
  return { name, ...(call && 'args' in call ? { args: call.args } : {}) }
}

/** The words of a confirmation, or of `adk_request_input`. */
function hintOf({ args }: Question['calls'][number]): string {
  const { message } = (args ?? {}) as { message?: unknown }
  return confirmedIn(args).hint || (typeof message === 'string' ? message : '')
}
