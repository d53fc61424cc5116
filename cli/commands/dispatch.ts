/** `flotilla dispatch`: sends a message to all agents as one goal and shows each one's progress, and the conclusion. */

import type { Command as Program } from 'commander'
import type { DispatchView } from '#operations/runs.ts'
import { startDispatchOperation } from '#operations/runs.ts'
import { type Cli, describe } from '../cli.ts'
import { execute } from '../execute.ts'
import { fields, line, print, printJson } from '../output.ts'
import { followToEnd, type MessageOptions, messageArgs, messageOptions, report } from './run-options.ts'

export function registerDispatch(program: Program, cli: Cli): void {
  const dispatch = messageOptions(program.command('dispatch').argument('<text>', 'the message')).description(
    'send a message to all agents and show what they say, and what the orchestrator concludes',
  )
  describe(dispatch, "flotilla dispatch 'What is known about the courier?'").action(
    async (text: string, options: MessageOptions) => {
      const { json = false } = options
      const session = { env: cli.env, output: { item() {}, progress() {} }, signal: cli.signal }
      const started = await execute(startDispatchOperation, messageArgs(text, options), session)
      if (options.async) {
        if (json) printJson({ dispatch: started })
        else print(fields(shortOf(started)))
        return
      }
      if (!json) print(beginningOf(started))
      const followed = await followToEnd(cli, String(started.goalId), json)
      if (!('dispatch' in followed)) return
      if (json) printJson(followed)
      else print(endOf(followed.dispatch))
      report(cli, followed.dispatch.status)
    },
  )
}

function shortOf({ goalId, sessionId, status, runs }: DispatchView) {
  return { dispatch: goalId, session: sessionId, status, agents: runs.map(({ agent }) => agent).join(', ') }
}

function beginningOf({ goalId, runs }: DispatchView): string {
  return line`[dispatch ${goalId} to ${runs.map(({ agent }) => agent).join(', ')}]`
}

/** The conclusion was shown as what the orchestrator said. */
function endOf({ goalId, status, runs, result }: DispatchView): string {
  const completed = runs.filter((run) => run.status === 'completed').length
  const without = result === null ? '; there is no conclusion' : ''
  return line`[dispatch ${goalId} ${status}: ${completed} of ${runs.length} agents answered${without}]`
}
