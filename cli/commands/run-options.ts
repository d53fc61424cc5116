/** What `flotilla run` and `flotilla dispatch` share: their options, and following to the end. */

import type { Command as Program } from 'commander'
import { type Followed, type FollowedItem, followRunOperation } from '#operations/runs-follow.ts'
import { type Cli, exitRefused } from '../cli.ts'
import { execute } from '../execute.ts'
import { write } from '../output.ts'
import { createRunPrinter } from './run-printer.ts'

export interface MessageOptions {
  json?: boolean
  user?: string
  session?: string
  async?: boolean
}

export function messageOptions(command: Program): Program {
  return command
    .option('--user <id>', 'in the name of this user (default: operator)')
    .option('--session <id>', 'in this session (default: a new one)')
    .option('--async', 'do not wait for the end')
}

export function messageArgs(text: string, { user, session }: MessageOptions) {
  return {
    text,
    ...(user === undefined ? {} : { userId: user }),
    ...(session === undefined ? {} : { sessionId: session }),
  }
}

/** Shows what the agents say until all have ended. Interrupting it ends the showing, not the run. */
export async function followToEnd(cli: Cli, id: string, json: boolean): Promise<Followed> {
  const printer = createRunPrinter(write)
  const output = {
    item(item: FollowedItem) {
      if (!json) printer.print(item)
    },
    progress() {},
  }
  try {
    const session = { env: cli.env, output, signal: cli.signal }
    return await execute(followRunOperation, { id, keep: json }, session)
  } finally {
    printer.end()
  }
}

/** Everything but a success is reported by the exit code. */
export function report(cli: Cli, status: string): void {
  if (status !== 'completed') cli.setExitCode(exitRefused)
}
