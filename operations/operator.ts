/** What the commands of notes, goals and runs share: as whom operators make them, and how they are listed. */

import { type Static, type TObject, Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { compileCheck, validationFailed } from '#runtime/http/validation.ts'
import type { Output } from '#runtime/start/control.ts'
import { showAgent } from '#services/access/agents/agents.ts'
import { type Author, priorities } from '#services/records/store/kind.ts'

/** No agent has this uid, whatever its id is. */
export const operator: Author = { name: 'operator', uid: 'operator', isAdmin: true }

/** The agent, or the operator where none is named. Throws AppError `not_found`. */
export async function authorNamed(relational: Relational, agentId: string | undefined): Promise<Author> {
  if (agentId === undefined) return operator
  const { agent_id, uid } = await showAgent(relational, agentId)
  return { name: agent_id, uid, isAdmin: false }
}

/** A check by the schema of requests: gives back what it checked, or throws AppError `validation_failed`. */
export function checkedBy<S extends TObject>(schema: S): (value: object) => Static<S> {
  const check = compileCheck(schema)
  return (value) => {
    const faults = check(value)
    if (faults) throw validationFailed(faults)
    return value as Static<S>
  }
}

const limitMax = 1_000
export const text = Type.Optional(Type.String())
export const priority = Type.Optional(Type.Enum([...priorities]))
export const numberOf = (description: string) => Type.Integer({ minimum: 1, maximum: 1e15 - 1, description })

/** Which notes or goals a list has. */
export const listArgs = <S extends string>(statuses: readonly S[]) => ({
  status: Type.Optional(Type.Enum([...statuses])),
  priority,
  author: text,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: limitMax })),
})
export const listOptions = {
  status: ['status', 'only these'],
  priority: ['priority', 'only these'],
  author: ['author', 'only those of this agent, or person by uid'],
  limit: ['count', `at most so many, from 1 to ${limitMax}; default 100`],
} as const
export const writeOptions = {
  priority: ['priority', 'default: normal'],
  author: ['agent-id', 'in the name of this agent; default: operator'],
} as const

/**
 * Lists of large rows: gives the pages up to `limit` rows to `output`, each when there is room for it, so that no message
 * is too long; resolves with the last one.
 */
export async function listPages<Row, Cursor>(
  output: Output<Row[]>,
  limit: number,
  read: (limit: number, cursor: Cursor | undefined) => Promise<{ rows: Row[]; next: Cursor | undefined }>,
): Promise<Row[]> {
  let cursor: Cursor | undefined
  for (let left = limit; ; ) {
    const { rows, next } = await read(left, cursor)
    left -= rows.length
    if (next === undefined || left <= 0) return rows
    await output.item(rows)
    cursor = next
  }
}
