import { onDistributedServers, openDistributedGateway } from '../support/distributed-stack.ts'
import { describeRunsOnAdk } from './runs-adk.promises.ts'

onDistributedServers()
describeRunsOnAdk('distributed', openDistributedGateway)
