/**
 * A small fleet under steady work while its servers, its network and one of its processes fail, one after the other:
 * nothing acknowledged is lost, order is kept, and all goes on by itself. `npm run faults` does all of it for longer.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { runFault } from '../support/fault-fleet/fault.ts'
import { fleetFaults } from '../support/fault-fleet/faults.ts'
import { type FaultFleet, openFaultFleet } from '../support/fault-fleet/fleet.ts'
import { rowOf } from '../support/fault-fleet/table.ts'

let fleet: FaultFleet

beforeAll(async () => {
  fleet = await openFaultFleet()
})
afterAll(() => fleet?.close())

test.each(fleetFaults)('$name', { timeout: 300_000 }, async (fault) => {
  const result = await runFault(fleet, fault, fault.seconds.short)
  console.error(rowOf(result).join(' | '))
  expect(result.faults).toEqual([])
})
