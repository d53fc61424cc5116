/** As test/faults/runs-dispatchers.test.ts, with 2,000 runs. */

import { test } from 'vitest'
import { expectRunsEndOnce, openDispatcherFaults } from '../support/dispatcher-faults.ts'

const faults = openDispatcherFaults()

test(
  'over 2,000 runs with kills every run ends once, with one report and one run that brings it',
  () => expectRunsEndOnce(faults, { runs: 2_000, kills: 6 }),
  900_000,
)
