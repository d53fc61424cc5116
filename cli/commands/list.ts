/** Commands that a running platform answers over its control socket. */

import type { Command } from '../command.ts'
import {
  deleteCommand,
  listCommand,
  provisionCommand,
  rotateCommand,
  showCommand,
  tierCommand,
} from './agents.ts'
import {
  deadLettersDiscardCommand,
  deadLettersListCommand,
  deadLettersReplayCommand,
  deadLettersShowCommand,
} from './dead-letters.ts'
import { doctorCommand } from './doctor.ts'
import { groupsResetCommand } from './groups.ts'
import { lagCommand } from './lag.ts'
import { rebuildVectorsCommand } from './rebuild.ts'
import { topicsGrowCommand } from './topics.ts'
import { topicsTailCommand } from './topics-tail.ts'

export const commands = [
  deadLettersDiscardCommand,
  deadLettersListCommand,
  deadLettersReplayCommand,
  deadLettersShowCommand,
  deleteCommand,
  doctorCommand,
  groupsResetCommand,
  lagCommand,
  listCommand,
  provisionCommand,
  rebuildVectorsCommand,
  rotateCommand,
  showCommand,
  tierCommand,
  topicsGrowCommand,
  topicsTailCommand,
] as readonly Command<never, unknown>[]
