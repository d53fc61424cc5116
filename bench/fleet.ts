/** 200 agents search, write, talk and report for ten minutes, on embedded engines and on distributed ones. */

import { findQdrant } from '../scripts/servers/qdrant.ts'
import { type Bench, type BenchOptions, type BenchResult, OptionFault } from './bench.ts'
import {
  agentCount,
  defaultMinutes,
  defaultRates,
  type Kind,
  kinds,
  type StackName,
  settledAfterMinutes,
} from './fleet/mix.ts'
import { fleetTables } from './fleet/report.ts'
import { fleetRows } from './fleet/rows.ts'
import { runTrial, type TrialOptions, type TrialResult } from './fleet/trial.ts'

const stacks = Object.keys(defaultRates) as StackName[]

export const fleetBench: Bench = {
  name: 'fleet',
  page: 'load.md',
  purpose: `what ${agentCount} agents see for ten minutes, and what the platform takes meanwhile: nothing lost, order kept, memory that does not grow`,
  options: {
    on: `one of ${stacks.join(', ')}; both without it`,
    minutes: `of load, ${defaultMinutes} without it`,
    rate: `requests a second, ${stacks.map((name) => `${defaultRates[name]} on ${name}`).join(', ')} without it`,
    only: `one kind of request: ${kinds.join(', ')}`,
  },
  async run(report, options = {}): Promise<BenchResult> {
    const chosen = stacksOf(options)
    const trials: TrialResult[] = []
    for (const stack of chosen) trials.push(await runTrial(trialOf(stack, options), report))
    return {
      rows: trials.flatMap(fleetRows),
      more: trials.map(fleetTables).join('\n\n'),
    }
  },
}

function stacksOf({ on }: BenchOptions): StackName[] {
  const chosen = stacks.filter((name) => on === undefined || name === on)
  if (chosen.length === 0) throw new OptionFault(`--on takes ${stacks.join(' or ')}`)
  if (findQdrant() !== null) return chosen
  if (on === 'kafka') throw new Error('this bench needs a qdrant executable on the PATH')
  return chosen.filter((name) => name !== 'kafka')
}

function trialOf(stack: StackName, { minutes: given, rate, only }: BenchOptions): TrialOptions {
  const minutes = positive('minutes', given) ?? defaultMinutes
  if (only !== undefined && !kinds.includes(only as Kind))
    throw new OptionFault(`--only takes one of ${kinds.join(', ')}`)
  return {
    stack,
    minutes,
    settledAfterMinutes: minutes > settledAfterMinutes ? settledAfterMinutes : minutes / 3,
    perSecond: positive('rate', rate) ?? defaultRates[stack],
    ...(only === undefined ? {} : { only: only as Kind }),
  }
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (Number(text) > 0) return Number(text)
  throw new OptionFault(`--${name} takes a number above 0`)
}
