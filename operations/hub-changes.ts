/** Changes of notes and goals by operators and at the main API: who did what is noted with the row, in its transaction. */

import type { Static, TObject } from 'typebox'
import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import { compileCheck, validationFailed } from '#runtime/http/validation.ts'
import { showAgent } from '#services/access/agents/agents.ts'
import type { Author, RecordKind, RecordRow } from '#services/records/store/kind.ts'
import type { ChangeContext } from './change.ts'

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

/** How an action names a note or goal: as the key of its records. */
export function targetOf({ name }: RecordKind, id: number): string {
  return `${name}/${id}`
}

/** Notes who made or changed a row; `before` is null for a new one. */
export function notedBy<Row extends RecordRow>(kind: RecordKind, { note }: Pick<ChangeContext, 'note'>) {
  return (tx: SqlTransaction, before: Row | null, after: Row): Promise<void> =>
    note(tx, {
      target: targetOf(kind, after.id),
      before: before && shownOf(kind, before),
      after: shownOf(kind, after),
    })
}

/** What is noted of a row: not its text, which may be long, and is in its record. */
function shownOf<Row extends RecordRow>({ title, own }: RecordKind, row: Row): object {
  const names = [title, ...own, 'priority', 'status', 'author', 'version']
  return Object.fromEntries(names.map((name) => [name, (row as Record<string, unknown>)[name]]))
}
