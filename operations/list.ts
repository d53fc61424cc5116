/** Every operation: what a running platform does when the command line asks it over the control socket. */

import { actions } from './actions.ts'
import { copyOperation } from './backup/backup.ts'
import { doctorOperation } from './doctor/doctor.ts'
import { exportOperation } from './export.ts'
import { lagOperation } from './lag.ts'
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
  lagOperation,
  startRunOperation,
  startDispatchOperation,
  followRunOperation,
  listRunsOperation,
  showRunOperation,
  cancelRunOperation,
  sinkJsonlOperation,
  sinkPostgresOperation,
  tailTopicOperation,
]
