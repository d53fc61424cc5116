/** Every command of `flotilla`, with its help. */

import { readFileSync } from 'node:fs'
import { Command as Program } from 'commander'
import type { Cli } from './cli.ts'
import { registerAgents } from './commands/agents.ts'
import { registerDeadLetters } from './commands/dead-letters.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerEmbed } from './commands/embed.ts'
import { registerGroups } from './commands/groups.ts'
import { registerLag } from './commands/lag.ts'
import { registerRebuild } from './commands/rebuild.ts'
import { registerStart } from './commands/start.ts'
import { registerTopics } from './commands/topics.ts'
import { registerTour } from './commands/tour.ts'

export function buildProgram(cli: Cli): Program {
  const program = new Program('flotilla')
    .description(
      'The platform under a fleet of AI agents: identity, shared vector memory, and the log beneath.',
    )
    .version(version(), '--version')
    .addHelpText(
      'after',
      '\nCommands work beside a running platform; where none runs on FLOTILLA_HOME, they open its engines themselves.' +
        '\nExit codes: 0 done, 1 refused or not found, 2 wrong use.' +
        '\n\nExample:\n  $ flotilla start\n  $ flotilla agents provision --agent-id scout',
    )
  const registrations = [
    registerStart,
    registerAgents,
    registerDoctor,
    registerLag,
    registerTopics,
    registerGroups,
    registerDeadLetters,
    registerRebuild,
    registerEmbed,
    registerTour,
  ]
  for (const register of registrations) register(program, cli)
  throwInsteadOfExit(program)
  return program
}

function version(): string {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

/** So that main chooses the exit code; a noun without a verb shows its help and counts as wrong use. */
function throwInsteadOfExit(program: Program): void {
  program.exitOverride().showHelpAfterError('(--help shows how it is used)')
  for (const command of program.commands) throwInsteadOfExit(command)
}
