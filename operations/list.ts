/** Every operation: what a running platform does when the command line asks it over the control socket. */

import {
  deleteAgentOperation,
  listAgentsOperation,
  provisionAgentOperation,
  rotateAgentOperation,
  updateAgentOperation,
} from './agents.ts'
import { showAgentOperation } from './agents-show.ts'
import { doctorOperation } from './doctor/doctor.ts'
import { exportOperation } from './export.ts'
import { resetGroupOperation } from './groups.ts'
import { skipRecordOperation } from './groups-skip.ts'
import { growTopicOperation } from './grow.ts'
import { lagOperation } from './lag.ts'
import type { Operation } from './operation.ts'
import { rebuildRelationalOperation, rebuildVectorsOperation } from './rebuild.ts'
import { recordLetters } from './record-letters.ts'
import { rotateSecretsOperation } from './secrets.ts'
import { statsOperation } from './stats.ts'
import { tailTopicOperation } from './topics-tail.ts'
import { deliveryLetters } from './webhooks/delivery-letters.ts'
import { forgetTargetOperation, skipHeadOperation } from './webhooks/skip.ts'
import { listTargetsOperation } from './webhooks/targets.ts'

export const operations: readonly Operation[] = [
  ...Object.values(recordLetters),
  ...Object.values(deliveryLetters),
  deleteAgentOperation,
  doctorOperation,
  exportOperation,
  resetGroupOperation,
  skipRecordOperation,
  lagOperation,
  listAgentsOperation,
  provisionAgentOperation,
  rebuildVectorsOperation,
  rebuildRelationalOperation,
  rotateAgentOperation,
  rotateSecretsOperation,
  showAgentOperation,
  statsOperation,
  updateAgentOperation,
  growTopicOperation,
  tailTopicOperation,
  forgetTargetOperation,
  skipHeadOperation,
  listTargetsOperation,
]
