/** Every action, and every operation: what a running platform does when the command line asks it over the control socket. */

import type { Action } from './action.ts'
import { agentKeyActions } from './agent-keys.ts'
import { agentActions } from './agents/actions.ts'
import { clearAgentAction } from './agents/clear.ts'
import { auditActions } from './audit.ts'
import { copyOperation } from './backup/backup.ts'
import { collectionActions } from './collections.ts'
import { listPointsAction } from './collections-points.ts'
import { searchCollectionAction } from './collections-search.ts'
import { deadLetterActions } from './dead-letters/actions.ts'
import { doctorOperation } from './doctor/doctor.ts'
import { exportOperation } from './export.ts'
import { followRequestAction } from './follow/follow-request.ts'
import { goalActions } from './goals.ts'
import { groupActions } from './groups.ts'
import { lagOperation } from './lag.ts'
import { memoryActions } from './memory.ts'
import { noteActions } from './notes.ts'
import type { Operation } from './operation.ts'
import { rebuildActions } from './rebuild.ts'
import {
  answerRunOperation,
  cancelRunOperation,
  listRunsOperation,
  showRunOperation,
  startDispatchOperation,
  startRunOperation,
} from './runs.ts'
import { followRunOperation } from './runs-follow.ts'
import { scheduleActions } from './schedules.ts'
import { secretActions } from './secrets.ts'
import { sessionActions } from './sessions.ts'
import { sinkJsonlOperation, sinkPostgresOperation } from './sink/sink.ts'
import { statsActions } from './stats.ts'
import { topicActions } from './topics-list.ts'
import { tailTopicOperation } from './topics-tail.ts'
import { userActions } from './users.ts'
import { webhookActions } from './webhooks/test-event.ts'

/** A noun that is new is a line here and, where it has commands, one in cli/program.ts, which loads nouns alone. */
export const actions: readonly Action[] = [
  ...agentActions,
  ...agentKeyActions,
  ...userActions,
  ...deadLetterActions,
  ...webhookActions,
  ...statsActions,
  ...collectionActions,
  searchCollectionAction,
  listPointsAction,
  ...memoryActions,
  ...topicActions,
  ...groupActions,
  ...noteActions,
  ...goalActions,
  ...sessionActions,
  ...scheduleActions,
  ...rebuildActions,
  ...secretActions,
  ...auditActions,
  followRequestAction,
]

/** Actions of the main API alone are not asked for here. */
export const operations: readonly Operation[] = [
  ...actions.filter(({ cli }) => cli),
  clearAgentAction,
  copyOperation,
  doctorOperation,
  exportOperation,
  lagOperation,
  startRunOperation,
  startDispatchOperation,
  followRunOperation,
  listRunsOperation,
  showRunOperation,
  answerRunOperation,
  cancelRunOperation,
  sinkJsonlOperation,
  sinkPostgresOperation,
  tailTopicOperation,
]
