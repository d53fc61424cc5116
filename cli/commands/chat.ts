/** `flotilla chat`: a conversation with one agent in one session, a line a message; where it asks, the next line is the answer. */

import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import type { Command as Program } from 'commander'
import { sleep } from '#lib/backoff.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { randomHex } from '#lib/ids.ts'
import { answerRunOperation, listRunsOperation, type RunView, startRunOperation } from '#operations/runs.ts'
import { type FollowedItem, followRunOperation } from '#operations/runs-follow.ts'
import { type Cli, exitRefused, reportError } from '../cli.ts'
import { line, noOutput, print, write } from '../output.ts'
import { questionOf, skippedOf } from './run.ts'
import { createRunPrinter } from './run-printer.ts'

interface ChatOptions {
  user?: string
  session?: string
}

interface Talk {
  cli: Cli
  agent: string
  session: string
  user: { userId?: string }
}

export function registerChat(program: Program, cli: Cli): void {
  program
    .command('chat')
    .argument('<agent>', 'its codename')
    .option('--user <id>', 'in the name of this user (default: operator)')
    .option('--session <id>', 'go on with this session (default: a new one)')
    .summary('talk with an agent, a line a message')
    .description(
      'talk with an agent, a line a message; where it asks, the next line is the answer; Ctrl-D ends it',
    )
    .addHelpText('after', '\nExample:\n  $ flotilla chat ATLAS')
    .action((agent: string, { user, session = randomUUID() }: ChatOptions) =>
      chat({ cli, agent, session, user: user === undefined ? {} : { userId: user } }),
    )
}

async function chat(talk: Talk): Promise<void> {
  const { cli, agent, session } = talk
  let asking = await readAsking(talk)
  const { stdin, stdout } = process
  const terminal = stdin.isTTY === true && stdout.isTTY === true
  const lines = createInterface({ input: stdin, ...(terminal ? { output: stdout, prompt: '> ' } : {}) })
  const end = () => lines.close()
  cli.signal.addEventListener('abort', end)
  lines.on('SIGINT', end)
  let open = true
  lines.on('close', () => {
    open = false
  })
  const prompt = () => {
    if (terminal && open) lines.prompt()
  }
  if (asking) print(questionOf(asking).join('\n'))
  prompt()
  for await (const text of lines) {
    if (text.trim() !== '') {
      try {
        const run: RunView = asking ? await answer(talk, asking, text) : await send(talk, text)
        asking = run.status === 'input_required' ? run : undefined
        print([...skippedOf(run), ...questionOf(run), ...failureOf(run)].join('\n'))
        if (run.status === 'failed') cli.exitCode = exitRefused
      } catch (error) {
        if (cli.signal.aborted) break
        cli.exitCode = reportError(error, false)
        // Somebody else may have answered, or canceled it.
        asking = asking && (await readAsking(talk))
      }
    }
    prompt()
  }
  cli.signal.removeEventListener('abort', end)
  print(line`[go on with: flotilla chat ${agent} --session ${session}]`)
}

/** The run of the session that waits for an answer. */
async function readAsking({ cli, agent, session, user }: Talk): Promise<RunView | undefined> {
  const args = { agent, sessionId: session, ...user, status: 'input_required', limit: 1 } as const
  const { runs } = await cli.executeRunning(listRunsOperation, args)
  return runs[0]
}

async function send({ cli, agent, session, user }: Talk, text: string): Promise<RunView> {
  const runId = `run_${randomHex(16)}`
  const args = { agent, text, sessionId: session, ...user, streaming: true, runId }
  await untilBack(cli, () => cli.executeRunning(startRunOperation, args))
  return showAnswer(cli, runId, 0)
}

async function answer({ cli }: Talk, { runId }: RunView, text: string): Promise<RunView> {
  const args = { id: runId, text, answerId: randomUUID() }
  const { after } = await untilBack(cli, () => cli.executeRunning(answerRunOperation, args))
  return showAnswer(cli, runId, after)
}

/** Events of a run are numbered without a gap, so those that were shown are counted. */
async function showAnswer(cli: Cli, id: string, from: number): Promise<RunView> {
  let after = from
  const printer = createRunPrinter(write)
  const item = (one: FollowedItem) => {
    if (one.kind === 'event') after++
    printer.print(one)
  }
  try {
    const followed = await untilBack(cli, () =>
      cli.executeRunning(followRunOperation, { id, keep: false, after }, { ...noOutput, item }),
    )
    return (followed as { run: RunView }).run
  } finally {
    printer.end()
  }
}

function failureOf({ status, error }: RunView): string[] {
  if (status === 'completed' || status === 'input_required') return []
  return [line`[${status}${error ? `: ${error.message}` : ''}]`]
}

const againMs = 500

/** A platform that is away is waited for. The work must be such that it does nothing the second time. */
async function untilBack<T>(cli: Cli, work: () => Promise<T>): Promise<T> {
  for (let waiting = false; ; waiting = true) {
    try {
      return await work()
    } catch (error) {
      const away = error instanceof AppError && (error.code === 'shutting_down' || isUnavailable(error))
      if (!away || cli.signal.aborted) throw error
      if (!waiting) print('[the platform is away; waiting until it is back]')
      await sleep(againMs, cli.signal)
    }
  }
}
