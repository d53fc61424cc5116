/** `flotilla dead-letters`: what the workers gave up on, in every topic. */

import type { Command as Program } from 'commander'
import { deadLetterActions } from '#operations/dead-letters/actions.ts'
import type { Cli } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'

export function registerDeadLetters(program: Program, cli: Cli): void {
  const letters = program.command('dead-letters').description('records that a worker gave up on, and why')
  mountActions(letters, cli, deadLetterActions)
}
