/** Data directories of versions after the earliest, opened by this one. */

import { fixtureNames, openEmbeddedFixture } from '../support/upgrade-stack.ts'
import { describeUpgrades } from '../flow/upgrade.promises.ts'

describeUpgrades(openEmbeddedFixture, fixtureNames().slice(1))
