/** Commands that a running platform answers over its control socket. */

import { deleteCommand, listCommand, provisionCommand, rotateCommand, tierCommand } from './agents.ts'
import { showCommand } from './agents-show.ts'
import {
  deadLettersDiscardCommand,
  deadLettersListCommand,
  deadLettersReplayCommand,
  deadLettersShowCommand,
} from './dead-letters.ts'
import { doctorCommand } from './doctor.ts'
import { exportCommand } from './export.ts'
import { groupsResetCommand } from './groups.ts'
import { topicsGrowCommand } from './grow.ts'
import { lagCommand } from './lag.ts'
import type { Command } from './operation.ts'
import { rebuildRelationalCommand, rebuildVectorsCommand } from './rebuild.ts'
import { statsCommand } from './stats.ts'
import { topicsTailCommand } from './topics-tail.ts'
import {
  webhooksLettersDiscardCommand,
  webhooksLettersListCommand,
  webhooksLettersReplayCommand,
  webhooksLettersShowCommand,
} from './webhooks/letters.ts'
import { webhooksForgetCommand, webhooksSkipCommand } from './webhooks/skip.ts'
import { webhooksTargetsCommand } from './webhooks/targets.ts'

export const commands = [
  deadLettersDiscardCommand,
  deadLettersListCommand,
  deadLettersReplayCommand,
  deadLettersShowCommand,
  deleteCommand,
  doctorCommand,
  exportCommand,
  groupsResetCommand,
  lagCommand,
  listCommand,
  provisionCommand,
  rebuildVectorsCommand,
  rebuildRelationalCommand,
  rotateCommand,
  showCommand,
  statsCommand,
  tierCommand,
  topicsGrowCommand,
  topicsTailCommand,
  webhooksForgetCommand,
  webhooksLettersDiscardCommand,
  webhooksLettersListCommand,
  webhooksLettersReplayCommand,
  webhooksLettersShowCommand,
  webhooksSkipCommand,
  webhooksTargetsCommand,
] as readonly Command<never, unknown>[]
