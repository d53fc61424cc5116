/** `flotilla agents`: who may use the platform. */

import type { Command as Program } from 'commander'
import { agentActions } from '#operations/agents/actions.ts'
import type { Cli } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'

export function registerAgents(program: Program, cli: Cli): void {
  const agents = program.command('agents').description('who may use the platform, and with which key')
  mountActions(agents, cli, agentActions)
}
