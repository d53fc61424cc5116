/** Suites on one stack of servers: what they promise when engines go away, and when a dispatcher is stopped. */

import { openAwayStack } from '../support/away-stack.ts'
import { describePlatformWithoutEngines } from './platform-engines-away.promises.ts'
import { describeStoppedDispatcher } from './runs-stop.promises.ts'
import { describeRelayWithoutEngines } from './webhook-relay-away.promises.ts'

const stack = openAwayStack()

describeRelayWithoutEngines(stack)
describeStoppedDispatcher(stack)
describePlatformWithoutEngines(stack)
