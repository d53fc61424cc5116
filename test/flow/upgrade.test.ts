/** The data directory of the earliest version, opened by this one; test/servers/upgrade-later.test.ts has those of later versions. */

import { fixtureNames, openEmbeddedFixture } from '../support/upgrade-stack.ts'
import { describeUpgrades } from './upgrade.promises.ts'

describeUpgrades(openEmbeddedFixture, fixtureNames().slice(0, 1))
