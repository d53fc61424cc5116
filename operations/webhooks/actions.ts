/** What people and operators do with webhooks; `check` and `fire` need no platform, and are commands of their own. */

import type { Action } from '../action.ts'
import { listAttemptsAction } from './attempts.ts'
import { deliveryLetters } from './delivery-letters.ts'
import { forgetTargetAction, skipHeadAction } from './skip.ts'
import { listTargetsAction } from './targets.ts'
import { testTargetAction } from './test-event.ts'

export const webhookActions: readonly Action[] = [
  listTargetsAction,
  ...Object.values(deliveryLetters),
  listAttemptsAction,
  testTargetAction,
  skipHeadAction,
  forgetTargetAction,
]
