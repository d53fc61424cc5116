/** Every action. A noun that is new is a line here and, where it has commands, one in cli/program.ts, which loads nouns alone. */

import type { Action } from './action.ts'
import { agentKeyActions } from './agent-keys.ts'
import { agentActions } from './agents/actions.ts'
import { auditActions } from './audit.ts'
import { searchCollectionAction } from './collections-search.ts'
import { deadLetterActions } from './dead-letters/actions.ts'
import { followRequestAction } from './follow/follow-request.ts'
import { goalActions } from './goals.ts'
import { groupActions } from './groups-skip.ts'
import { noteActions } from './notes.ts'
import { rebuildRelationalAction, rebuildVectorsAction } from './rebuild.ts'
import { rebuildNotesAction } from './rebuild-notes.ts'
import { secretActions } from './secrets.ts'
import { statsActions } from './stats.ts'
import { topicActions } from './topics-list.ts'
import { userActions } from './users.ts'
import { webhookActions } from './webhooks/actions.ts'

export const actions: readonly Action[] = [
  ...agentActions,
  ...agentKeyActions,
  ...userActions,
  ...deadLetterActions,
  ...webhookActions,
  ...statsActions,
  searchCollectionAction,
  ...topicActions,
  ...groupActions,
  ...noteActions,
  ...goalActions,
  rebuildVectorsAction,
  rebuildRelationalAction,
  rebuildNotesAction,
  ...secretActions,
  ...auditActions,
  followRequestAction,
]
