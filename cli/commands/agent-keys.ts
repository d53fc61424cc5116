/** `flotilla agent-keys`: the keys that agents trade for tokens of the main API. */

import type { Command as Program } from 'commander'
import { agentKeyActions } from '#operations/agent-keys.ts'
import type { Cli } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'

export function registerAgentKeys(program: Program, cli: Cli): void {
  const keys = program.command('agent-keys').description('keys that agents trade for tokens of the main API')
  mountActions(keys, cli, agentKeyActions)
}
