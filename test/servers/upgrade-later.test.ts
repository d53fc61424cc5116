/** Data directories of versions after the earliest, opened by this one. */

import { describeUpgrades } from '../flow/upgrade.promises.ts'
import { fixtureNames, openEmbeddedFixture } from '../support/upgrade-stack.ts'

describeUpgrades(openEmbeddedFixture, fixtureNames().slice(1))
