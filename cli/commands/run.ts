/** `flotilla run` and `flotilla dispatch`: send a message to an agent, or to all, and show what they say. */

import type { Command as Program } from 'commander'
import { confirmation, confirmedIn } from '#client/answer-parts.ts'
import { type RunView, startDispatchOperation, startRunOperation } from '#operations/runs.ts'
import { type Followed, type FollowedItem, followRunOperation } from '#operations/runs-follow.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { line, noOutput, print, printResult, write } from '../output.ts'
import { readMessageFiles } from './message-files.ts'
import { createRunPrinter } from './run-printer.ts'

interface MessageOptions {
  json?: boolean
  user?: string
  session?: string
  file?: string[]
  async?: boolean
}

export function registerRun(program: Program, cli: Cli): void {
  const command = messageOptions(
    program.command('run').argument('<agent>', 'its codename').argument('<text>', 'the message'),
  ).description('send a message to one agent and show what it says')
  describe(command, "flotilla run ATLAS 'Where is the courier described?'").action(
    async (agent: string, text: string, options: MessageOptions) => {
      const args = { agent, ...messageArgs(text, options), streaming: !options.json }
      const run = await cli.execute(startRunOperation, args)
      const { runId, appName, sessionId, status } = run
      const short = { run: runId, agent: appName, session: sessionId, status }
      await showStarted(cli, { run }, { id: runId, short }, options)
    },
  )
}

export function registerDispatch(program: Program, cli: Cli): void {
  const command = messageOptions(program.command('dispatch').argument('<text>', 'the message'))
    .summary('send a message to all agents and show what they say')
    .description('send a message to all agents and show what they say, and what the orchestrator concludes')
  describe(command, "flotilla dispatch 'What is known about the courier?'").action(
    async (text: string, options: MessageOptions) => {
      const dispatch = await cli.execute(startDispatchOperation, messageArgs(text, options))
      const { goalId, sessionId, status, runs } = dispatch
      const agents = runs.map(({ agent }) => agent).join(', ')
      if (!options.async && !options.json) print(line`[dispatch ${goalId} to ${agents}]`)
      const short = { dispatch: goalId, session: sessionId, status, agents }
      await showStarted(cli, { dispatch }, { id: String(goalId), short }, options)
    },
  )
}

function messageOptions(command: Program): Program {
  return command
    .option('--user <id>', 'in the name of this user (default: operator)')
    .option('--session <id>', 'in this session (default: a new one)')
    .option(
      '--file <path>',
      'with this file, 1 MiB in all; may be repeated',
      (path, before: string[] = []) => [...before, path],
    )
    .option('--async', 'do not wait for the end')
}

function messageArgs(text: string, { user, session, file }: MessageOptions) {
  return {
    text,
    ...(file === undefined ? {} : { files: readMessageFiles(file) }),
    ...(user === undefined ? {} : { userId: user }),
    ...(session === undefined ? {} : { sessionId: session }),
  }
}

/** Without --async what the agents say until all have ended; everything but a success is reported by the exit code. */
export async function showStarted(
  cli: Cli,
  started: object,
  { id, short, after }: { id: string; short: Record<string, unknown>; after?: number },
  { json = false, async: isAsync }: MessageOptions,
): Promise<void> {
  if (isAsync) return printResult(json, started, () => ({ fields: short }))
  const followed = await followToEnd(cli, { id, keep: json, ...(after === undefined ? {} : { after }) })
  printResult(json, followed, () => endOf(followed))
  const { status } = 'run' in followed ? followed.run : followed.dispatch
  if (status !== 'completed' && status !== 'input_required') cli.exitCode = exitRefused
}

/** Interrupting it ends the showing, not the run. */
async function followToEnd(cli: Cli, args: { id: string; keep: boolean; after?: number }): Promise<Followed> {
  const { keep } = args
  const printer = createRunPrinter(write)
  const output = { ...noOutput, item: (item: FollowedItem) => (keep ? undefined : printer.print(item)) }
  try {
    return await cli.execute(followRunOperation, args, output)
  } finally {
    printer.end()
  }
}

/** One line, and one for each agent that was named and did not join; the conclusion of a dispatch was shown before. */
function endOf(followed: Followed): string {
  if ('dispatch' in followed) {
    const { goalId, status, runs, result } = followed.dispatch
    const completed = runs.filter((run) => run.status === 'completed').length
    const without = result === null ? '; there is no conclusion' : ''
    return line`[dispatch ${goalId} ${status}: ${completed} of ${runs.length} agents answered${without}]`
  }
  const { runId, sessionId, status, error } = followed.run
  const why = error ? `: ${error.message.replace(/\.$/, '')}` : ''
  return [
    ...skippedOf(followed.run),
    ...questionOf(followed.run),
    line`[${runId} ${status}${why}; session ${sessionId}]`,
  ].join('\n')
}

/** A line for each agent that was named and did not join. */
export function skippedOf({ skipped }: RunView): string[] {
  return skipped.map(({ agent, reason }) => line`[${agent} did not join: ${reason}]`)
}

/** A line for each call that waits for an answer; none for a run that does not ask. */
export function questionOf({ appName, question }: RunView): string[] {
  return (question?.calls ?? []).map(({ name, args }) => {
    if (name === confirmation) {
      const { hint, name: called, args: given } = confirmedIn(args)
      const why = hint === '' ? '' : ` (${hint})`
      return line`[${appName} asks to call ${shownCall(called, given)}${why}: approve or refuse?]`
    }
    const { message } = (args ?? {}) as { message?: unknown }
    if (typeof message === 'string') return line`[${appName} asks: ${message}]`
    return line`[${appName} waits for the answer of ${shownCall(name, args)}]`
  })
}

/** Where the arguments were too long for the question, without them. */
function shownCall(name: string, args: unknown): string {
  return `${name || 'a tool'}${args === undefined ? '' : ` ${JSON.stringify(args)}`}`
}
