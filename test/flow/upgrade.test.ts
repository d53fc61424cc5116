/** The data directory of the earliest version, opened by this one; those of later versions take part in the engines suites. */

import { fixtureNames, openEmbeddedFixture } from '../support/upgrade-stack.ts'
import { describeUpgrades } from './upgrade.promises.ts'

describeUpgrades(openEmbeddedFixture, fixtureNames().slice(0, 1))
