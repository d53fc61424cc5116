/** `flotilla tour`: takes an agent through the running platform with real text; every step is checked and timed. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import { readAddresses } from '#runtime/start/addresses.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { type Cli, describe, withWide } from '../cli.ts'
import { printResult } from '../output.ts'
import type { TourResult } from './tour-talk.ts'

export function registerTour(program: Program, cli: Cli): void {
  const tour = program
    .command('tour')
    .description(
      'on a running platform: an agent proves who it is, stores a few hundred documents, finds them again, talks to others',
    )
    .option('--vector-url <url>', 'of the vector gateway (default: the one that runs on the data directory)')
    .option('--run-url <url>', 'of the run gateway (default: the one that runs on the data directory)')
  describe(withWide(tour), 'flotilla tour').action(async (options: TourOptions) => {
    const vectorUrl = options.vectorUrl ?? runningGateway(cli)
    const runUrl = options.runUrl ?? addressOf(cli, 'agent_gateway_url')
    const { runTour } = await import('./tour-steps.ts')
    const folder = mkdtempSync(join(tmpdir(), 'flotilla-tour-'))
    try {
      const result = await runTour(cli, { vectorUrl, runUrl, folder, quiet: options.json === true })
      printResult(options.json, result, () => render(result), { wide: options.wide })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
}

interface TourOptions {
  vectorUrl?: string
  runUrl?: string
  json?: boolean
  wide?: boolean
}

function addressOf(cli: Cli, name: string): string | undefined {
  const url = readAddresses(homeOf(cli.env))?.[name]
  return typeof url === 'string' ? url : undefined
}

function runningGateway(cli: Cli): string {
  const url = addressOf(cli, 'vector_url')
  if (url !== undefined) return url
  const home = homeOf(cli.env)
  throw new AppError(
    'not_found',
    `No vector gateway runs on ${home}. Start the platform in another terminal with \`npm start\`, wait for \`ready\`, and run the tour again.`,
  )
}

function render(result: TourResult): Shown {
  const searches = result.searches.flatMap(({ query, took_ms, hits }) =>
    hits.map((hit, n) => [n === 0 ? query : '', n === 0 ? took_ms : '', hit.score.toFixed(3), hit.title]),
  )
  return [
    tableOf(result.steps, {
      step: ({ step }) => step,
      ms: ({ took_ms }) => took_ms,
      result: ({ found }) => found,
    }),
    { head: ['search', 'ms', 'score', 'document'], rows: searches },
    ...result.said.map(({ agent, text }) => `${agent}: ${text}`),
    tableOf(result.audit_notes, {
      'audit note': ({ title }) => title,
      status: ({ status_code }) => status_code,
      ms: ({ took_ms }) => took_ms,
    }),
    tableOf(result.lag, { group: ({ group }) => group, lag: ({ lag }) => lag }),
    'The tour is done: every step worked.',
  ]
}
