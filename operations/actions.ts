/** Every action. A noun that is new is a line here and, where it has commands, one in cli/program.ts, which loads nouns alone. */

import type { Action } from './action.ts'
import { agentKeyActions } from './agent-keys.ts'
import { agentActions } from './agents/actions.ts'
import { deadLetterActions } from './dead-letters/actions.ts'
import { userActions } from './users.ts'
import { webhookActions } from './webhooks/actions.ts'

export const actions: readonly Action[] = [
  ...agentActions,
  ...agentKeyActions,
  ...userActions,
  ...deadLetterActions,
  ...webhookActions,
]
