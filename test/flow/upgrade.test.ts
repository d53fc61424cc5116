/** Data directories of earlier versions, opened by this one. */

import { openEmbeddedFixture } from '../support/upgrade-stack.ts'
import { describeUpgrades } from './upgrade.promises.ts'

describeUpgrades(openEmbeddedFixture)
