import { describeRunsOnAdk } from '../flow/runs-adk.promises.ts'
import { onDistributedServers, openDistributedGateway } from '../support/distributed-stack.ts'

onDistributedServers()
describeRunsOnAdk('distributed', openDistributedGateway)
