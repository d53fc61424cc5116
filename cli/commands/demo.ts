/** `flotilla demo`: fills an empty platform with a week of a small fleet, so that every page of the console shows something. */

import type { Command as Program } from 'commander'
import { plural } from '#lib/plural.ts'
import { type Cli, describe } from '../cli.ts'
import { line, printResult } from '../output.ts'
import type { DemoResult, RemovedDemo } from './demo-steps.ts'
import { runningAddresses } from './example-agents.ts'

export function registerDemo(program: Program, cli: Cli): void {
  const demo = program
    .command('demo')
    .description(
      "fill an empty, running platform with a small fleet's week: agents, documents, notes, goals, runs, webhooks, dead letters",
    )
    .option('--force', 'also where the platform has agents or notes of others')
    .option('--clean', 'remove all that the demo made')
  describe(demo, 'flotilla demo\nflotilla demo --clean').action(
    async ({ force = false, clean, json }: { force?: boolean; clean?: boolean; json?: boolean }) => {
      const { cleanDemo, runDemo } = await import('./demo-steps.ts')
      const addresses = runningAddresses(cli, clean ? 'flotilla demo --clean' : 'flotilla demo')
      if (clean) {
        const removed = await cleanDemo(cli, addresses)
        printResult(json, { removed }, () => renderRemoved(removed))
        return
      }
      const result = await runDemo(cli, addresses, { force, quiet: json === true })
      printResult(json, result, () => render(result))
    },
  )
}

function render({ already, agents, left_out, console_url }: DemoResult): string {
  const look = console_url === null ? [] : [line`Look at it in the console: ${console_url}`]
  const clean = '`npx flotilla demo --clean` removes it.'
  if (already)
    return [line`The demo is here already: agents ${agents.join(', ')}.`, ...look, clean].join('\n')
  return [
    ...left_out.map((text) => line`${text}`),
    'All times are now: the platform takes no others. The receivers of the webhooks ended with this command.',
    ...look,
    clean,
  ].join('\n')
}

function renderRemoved(removed: RemovedDemo | null): string {
  if (removed === null) return 'There is nothing of a demo here.'
  const { agents, points, notes, goals, runs, targets, kept_file } = removed
  const counts = Object.entries({
    agent: agents.length,
    document: points,
    note: notes,
    goal: goals,
    run: runs,
    target: targets,
  })
  return [
    `Removed: ${counts.map(([name, count]) => plural(count, name)).join(', ')}. Notes of the audit stay until they expire.`,
    ...(kept_file === null ? [] : [line`${kept_file} has other targets and was left alone.`]),
  ].join('\n')
}
