/** Who a caller is to notes and goals. */

import type { Caller } from '#services/access/callers/caller.ts'
import type { Author } from './kind.ts'

export function authorOf({ agentId, uid, access }: Caller): Author {
  return { name: agentId, uid, isAdmin: access === 'admin' }
}
