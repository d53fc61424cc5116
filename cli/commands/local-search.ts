/** The commands of local search, under `flotilla`: their words pass untouched to the ones of `stidx`. */

import type { Command as Program } from 'commander'
import type { Environment } from '#lib/config.ts'

const summaries: Readonly<Record<string, string>> = {
  'index-jsonl': 'build a local index from JSON lines',
  search: 'find records in a local index by words',
  get: 'print one record of a local index by its id',
}

/** True for the words of local search; `stats` is one of them with a file, and without one asks the platform. */
export function isLocalSearch([verb = '', ...words]: readonly string[]): boolean {
  return Object.hasOwn(summaries, verb) || (verb === 'stats' && words.some((word) => !word.startsWith('-')))
}

/** For the help of all commands; what runs is `runLocalSearch`. */
export function registerLocalSearch(program: Program): void {
  for (const [name, summary] of Object.entries(summaries)) program.command(name).description(summary)
}

/** Returns the exit code. bin/flotilla.js runs these commands without coming here, by the package's own command. */
export async function runLocalSearch(args: readonly string[], env: Environment): Promise<number> {
  if (args[0] === 'index-jsonl')
    return (await import('#stidx/command/index-jsonl.ts')).indexJsonl(args.slice(1))
  return (await import('#stidx/command/run.ts')).runCommand(args, env)
}
