/** Suites on one stack of servers: what they promise when engines go away, and when a gateway or a dispatcher is stopped or killed. */

import { openAwayStack } from '../support/away-stack.ts'
import { describePlatformWithoutEngines } from './platform-engines-away.promises.ts'
import { describeQuestionKills } from './runs-questions-kills.promises.ts'
import { describeStoppedDispatcher } from './runs-stop.promises.ts'
import { describeRelayWithoutEngines } from './webhook-relay-away.promises.ts'

const stack = openAwayStack()

describeRelayWithoutEngines(stack)
describeStoppedDispatcher(stack)
describeQuestionKills('distributed', async () => ({
  env: (await stack.newEnvironment()).env,
  gateway: ['run-gateway', 'vector-gateway', 'outbox-publisher'],
  dispatcher: ['run-dispatcher'],
}))
describePlatformWithoutEngines(stack)
