/**
 * `npm run faults`: a small fleet under steady work while one server after the other fails; prints the results, with
 * --save also into docs/faults.md.
 */

import Table from 'cli-table3'
import { type FaultResult, runFault } from '../test/support/fault-fleet/fault.ts'
import { fleetFaults } from '../test/support/fault-fleet/faults.ts'
import { brokerVolumeMb, openFaultFleet } from '../test/support/fault-fleet/fleet.ts'
import { head, rowOf, saveTable } from '../test/support/fault-fleet/table.ts'

const help = `Usage: npm run faults -- [--short] [--save] [FAULT...]

  FAULT    only those whose names begin so
  --short  each lasts seconds, as in npm run test:faults
  --save   keep its rows in the table of docs/faults.md

Faults:
${fleetFaults.map(({ name }) => `  ${name}`).join('\n')}`

const order = fleetFaults.map(({ name }) => name)

async function main(args: string[]): Promise<number> {
  const flags = new Set(args.filter((arg) => arg.startsWith('--')))
  const names = args.filter((arg) => !arg.startsWith('--'))
  const chosen = fleetFaults.filter(
    ({ name }) => names.length === 0 || names.some((begin) => name.startsWith(begin)),
  )
  const unknown = [...flags].filter((flag) => !['--short', '--save', '--help'].includes(flag))
  if (flags.has('--help') || unknown.length > 0 || chosen.length === 0) {
    console.error(help)
    return flags.has('--help') ? 0 : 2
  }
  const length = flags.has('--short') ? 'short' : 'full'
  const results: FaultResult[] = []
  const begun = performance.now()
  const report = (text: string) =>
    void process.stderr.write(`${Math.round((performance.now() - begun) / 1_000)} s ${text}\n`)
  const fleet = await openFaultFleet({ brokerVolumeMb })
  report('the fleet is at work')
  try {
    for (const fault of chosen) {
      if (fault.needs && !fault.needs(fleet)) {
        report(`NOT TRIED here: ${fault.name}`)
        continue
      }
      const result = await runFault(fleet, fault, fault.seconds[length], report)
      report(rowOf(result).join(' | '))
      results.push(result)
      if (flags.has('--save')) saveTable(results, order)
    }
  } finally {
    await fleet.close()
  }
  const table = new Table({ head, style: { head: [], border: [] }, wordWrap: true })
  for (const result of results) table.push(rowOf(result))
  console.log(table.toString())
  return results.some(({ faults }) => faults.length > 0) ? 1 : 0
}

process.exitCode = await main(process.argv.slice(2))
