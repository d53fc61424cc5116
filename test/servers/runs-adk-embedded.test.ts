import { describeRunsOnAdk } from '../flow/runs-adk.promises.ts'
import { openGatewayPlatform } from '../support/gateway-platform.ts'

describeRunsOnAdk('embedded', openGatewayPlatform)
