import { openGatewayPlatform } from '../support/gateway-platform.ts'
import { describeRunsOnAdk } from './runs-adk.promises.ts'

describeRunsOnAdk('embedded', openGatewayPlatform)
