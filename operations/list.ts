/** Every operation: what a running platform does when the command line asks it over the control socket. */

import { actions } from './actions.ts'
import { copyOperation } from './backup/backup.ts'
import { doctorOperation } from './doctor/doctor.ts'
import { exportOperation } from './export.ts'
import { addGoalOperation, listGoalsOperation, setGoalOperation, showGoalOperation } from './goals.ts'
import { resetGroupOperation } from './groups.ts'
import { skipRecordOperation } from './groups-skip.ts'
import { growTopicOperation } from './grow.ts'
import { lagOperation } from './lag.ts'
import { addNoteOperation, listNotesOperation, replyNoteOperation, showNoteOperation } from './notes.ts'
import type { Operation } from './operation.ts'
import {
  cancelRunOperation,
  listRunsOperation,
  showRunOperation,
  startDispatchOperation,
  startRunOperation,
} from './runs.ts'
import { followRunOperation } from './runs-follow.ts'
import { sinkJsonlOperation, sinkPostgresOperation } from './sink/sink.ts'
import { tailTopicOperation } from './topics-tail.ts'

/** Those of the main API alone are not asked for here. */
const commands = actions.filter(({ cli }) => cli)

export const operations: readonly Operation[] = [
  ...commands,
  copyOperation,
  doctorOperation,
  exportOperation,
  resetGroupOperation,
  skipRecordOperation,
  lagOperation,
  listNotesOperation,
  showNoteOperation,
  addNoteOperation,
  replyNoteOperation,
  listGoalsOperation,
  showGoalOperation,
  addGoalOperation,
  setGoalOperation,
  startRunOperation,
  startDispatchOperation,
  followRunOperation,
  listRunsOperation,
  showRunOperation,
  cancelRunOperation,
  sinkJsonlOperation,
  sinkPostgresOperation,
  growTopicOperation,
  tailTopicOperation,
]
