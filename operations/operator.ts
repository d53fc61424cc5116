/** As whom operators make notes, goals and runs, and the check of what they give. */

import type { Static, TObject } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { compileCheck, validationFailed } from '#runtime/http/validation.ts'
import { showAgent } from '#services/access/agents/agents.ts'
import type { Author } from '#services/records/store/kind.ts'

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
