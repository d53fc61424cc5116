/** The conditions of the search, as its address has them. */

import { withoutAuditNotes } from '../../../packages/client/src/audit-notes.ts'
import { filterWhere, writtenConditions } from '../../../packages/client/src/where.ts'

export function withCondition(where: string, condition: string): string {
  return where === '' ? condition : `${where}, ${condition}`
}

export function withoutCondition(where: string, condition: string): string {
  const left = writtenConditions(where)
  left.splice(left.indexOf(condition), 1)
  return left.join(', ')
}

/** As the main API takes it. */
export function asksForAuditNotes(where: string): boolean {
  const filter = filterWhere(where)
  return filter !== undefined && withoutAuditNotes('fleet_notes', filter) === filter
}
