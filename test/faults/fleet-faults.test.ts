/**
 * A small fleet under steady work while its servers, its network, its clock and one of its processes fail, one after the
 * other: nothing acknowledged is lost, order is kept, and all goes on by itself. `npm run faults` tries more of them, for
 * longer.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { runFault } from '../support/fault-fleet/fault.ts'
import { fleetFaults } from '../support/fault-fleet/faults.ts'
import { type FaultFleet, openFaultFleet } from '../support/fault-fleet/fleet.ts'
import { rowOf } from '../support/fault-fleet/table.ts'

/** A run of CI takes what belongs to its quarter: they are a sixth of the time of all fault suites. */
const quarter = process.env.FLOTILLA_QUARTER

/** Faults that no other suite tries with all services at work. */
const tried = [
  'two brokers of three killed',
  'Postgres killed',
  'one platform of two paused',
  'network silent to every server',
  'clock of both platforms 3 h ahead, then right',
]
const chosen = tried
  .filter((_, index) => quarter === undefined || index % 4 === Number(quarter))
  .map((name) => fleetFaults.find((fault) => fault.name === name)!)
let fleet: FaultFleet

beforeAll(async () => {
  fleet = await openFaultFleet()
})
afterAll(() => fleet?.close())

test.each(chosen)('$name', { timeout: 300_000 }, async (fault) => {
  if (fault.needs && !fault.needs(fleet)) {
    // CI installs everything that the faults need.
    expect(process.env.CI).toBeUndefined()
    return
  }
  const result = await runFault(fleet, fault, fault.seconds.short)
  console.error(rowOf(result).join(' | '))
  expect(result.faults).toEqual([])
})
