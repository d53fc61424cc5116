/** `flotilla run`: sends a message to an agent and shows what it, and those that it names, say. */

import type { Command as Program } from 'commander'
import type { RunView } from '#operations/runs.ts'
import { startRunOperation } from '#operations/runs.ts'
import { type Cli, describe } from '../cli.ts'
import { execute } from '../execute.ts'
import { fields, line, print, printJson } from '../output.ts'
import { followToEnd, type MessageOptions, messageArgs, messageOptions, report } from './run-options.ts'

export function registerRun(program: Program, cli: Cli): void {
  const run = messageOptions(
    program.command('run').argument('<agent>', 'its codename').argument('<text>', 'the message'),
  ).description('send a message to an agent and show what it says')
  describe(run, "flotilla run ATLAS 'Where is the courier described?'").action(
    async (agent: string, text: string, options: MessageOptions) => {
      const { json = false } = options
      const session = { env: cli.env, output: { item() {}, progress() {} }, signal: cli.signal }
      const args = { agent, ...messageArgs(text, options), streaming: !json }
      const started = await execute(startRunOperation, args, session)
      if (options.async) {
        if (json) printJson({ run: started })
        else print(fields(shortOf(started)))
        return
      }
      const followed = await followToEnd(cli, started.runId, json)
      if (!('run' in followed)) return
      if (json) printJson(followed)
      else print(endOf(followed.run))
      report(cli, followed.run.status)
    },
  )
}

function shortOf({ runId, appName, sessionId, status }: RunView) {
  return { run: runId, agent: appName, session: sessionId, status }
}

/** One line, and one for each agent that was named and did not join. */
function endOf({ runId, sessionId, status, error, skipped }: RunView): string {
  const why = error ? `: ${error.message}` : ''
  return [
    ...skipped.map(({ agent, reason }) => line`[${agent} did not join: ${reason}]`),
    line`[${runId} ${status}${why}; session ${sessionId}]`,
  ].join('\n')
}
