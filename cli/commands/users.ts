/** `flotilla users`: the people who may use the main API and the console. */

import type { Command as Program } from 'commander'
import { userActions } from '#operations/users.ts'
import type { Cli } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'

export function registerUsers(program: Program, cli: Cli): void {
  const users = program.command('users').description('people who may use the main API and the console')
  mountActions(users, cli, userActions)
}
