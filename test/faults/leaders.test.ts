/** Suites on one cluster of three brokers whose leaders are killed: the log, then the whole platform. */

import { openAwayStack } from '../support/away-stack.ts'
import { describeLogWithoutLeaders } from './kafka-leaders.promises.ts'
import { describePlatformWithoutLeaders } from './platform-leaders.promises.ts'

const stack = openAwayStack(3)

describeLogWithoutLeaders(stack)
describePlatformWithoutLeaders(stack)
