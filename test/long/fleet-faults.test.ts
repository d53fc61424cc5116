/** Every fault of `npm run faults` on a small fleet under steady work; there each lasts longer. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { runFault } from '../support/fault-fleet/fault.ts'
import { fleetFaults } from '../support/fault-fleet/faults.ts'
import { brokerVolumeMb, type FaultFleet, openFaultFleet } from '../support/fault-fleet/fleet.ts'
import { rowOf } from '../support/fault-fleet/table.ts'

let fleet: FaultFleet

beforeAll(async () => {
  fleet = await openFaultFleet({ brokerVolumeMb })
})
afterAll(() => fleet?.close())

test.each(fleetFaults)('$name', { timeout: 600_000 }, async (fault) => {
  if (fault.needs && !fault.needs(fleet)) return console.error(`NOT TRIED here: ${fault.name}`)
  const result = await runFault(fleet, fault, fault.seconds.short)
  console.error(rowOf(result).join(' | '))
  expect(result.faults).toEqual([])
})
