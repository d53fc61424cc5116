/** Log directories, schemas and databases of earlier versions' distributed engines, opened by this version. */

import { openDistributedFixture } from '../support/upgrade-stack.ts'
import { describeUpgrades } from './upgrade.promises.ts'

describeUpgrades(openDistributedFixture)
