/** Log directories, schemas and databases of earlier versions' distributed engines, opened by this version. */

import { describeUpgrades } from '../flow/upgrade.promises.ts'
import { openDistributedFixture } from '../support/upgrade-stack.ts'

describeUpgrades(openDistributedFixture)
