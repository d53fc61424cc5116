/** `flotilla tour`: takes an agent through the running platform with its own docs; every step is checked and timed. */

import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import { type Cli, describe, withWide } from '../cli.ts'
import { line, printResult } from '../output.ts'
import { runningAddresses } from './example-agents.ts'
import type { TourResult } from './tour-parts.ts'

export function registerTour(program: Program, cli: Cli): void {
  const tour = program
    .command('tour')
    .description(
      'on a running platform: an agent proves who it is, stores the docs, finds them again, talks to others; what it made stays',
    )
    .option(
      '--kill',
      'start a platform for it, kill it in the midst of work, start it again and show that nothing is lost',
    )
    .option('--clean', 'remove all that tours made: points, notes, goals, runs, and the agent')
    .option('--vector-url <url>', 'of the vector gateway (default: the one that runs on the data directory)')
    .option('--run-url <url>', 'of the run gateway (default: the one that runs on the data directory)')
  describe(withWide(tour), 'flotilla tour\nflotilla tour --clean').action((options: TourOptions) =>
    take(cli, options),
  )
}

interface TourOptions {
  kill?: boolean
  clean?: boolean
  vectorUrl?: string
  runUrl?: string
  json?: boolean
  wide?: boolean
}

async function take(cli: Cli, options: TourOptions): Promise<void> {
  const { kill, clean, vectorUrl, runUrl, json, wide } = options
  const quiet = json === true
  if (kill) {
    if (clean || vectorUrl !== undefined || runUrl !== undefined) {
      throw new AppError(
        'bad_request',
        'With --kill the tour starts a platform of its own: give no other option.',
      )
    }
    const { runKillTour } = await import('./tour-kill.ts')
    const result = await runKillTour(cli, quiet)
    printResult(
      json,
      result,
      () => [...renderEnd(result), 'The platform was stopped: `npx flotilla start` starts it again.'],
      { wide },
    )
    return
  }
  const { cleanTour, removedText } = await import('./tour-clean.ts')
  const { runTour } = await import('./tour-steps.ts')
  const found = runningAddresses(cli, clean ? 'npx flotilla tour --clean' : 'npx flotilla tour', vectorUrl)
  const addresses = { ...found, ...(runUrl === undefined ? {} : { runUrl }) }
  if (clean) {
    const removed = await cleanTour(cli, addresses)
    printResult(json, { removed }, () =>
      removed === null
        ? 'There is nothing of a tour here.'
        : `Removed: ${removedText(removed)}, and the agent tour. Notes of the audit stay until they expire.`,
    )
    return
  }
  const result = await runTour(cli, addresses, { quiet })
  printResult(json, result, () => renderEnd(result), { wide })
}

/** Steps, searches and answers were shown as they came. */
function renderEnd({ audit_notes, console_url, searches, documents, notes }: TourResult): Shown[] {
  const look =
    console_url === null
      ? []
      : [
          line`  search  ${console_url}search?${String(new URLSearchParams({ text: searches[0]!.query, in: 'knowledgebase' }))}`,
          ...(notes[0] === undefined ? [] : [line`  notes   ${console_url}notes/${notes[0]}`]),
          line`  runs    ${console_url}runs`,
        ]
  return [
    tableOf(audit_notes, {
      'audit note': ({ title }) => title,
      status: ({ status_code }) => status_code,
      ms: ({ took_ms }) => took_ms && Math.round(took_ms),
    }),
    line`What it made stays: ${documents} points tagged tour, notes, goals and runs of the agent tour.`,
    ...(look.length === 0 ? [] : ['Look at it in the console:', ...look]),
    '`npx flotilla tour --clean` removes it.',
    'The tour is done: every step worked.',
  ]
}
