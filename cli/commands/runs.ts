/** `flotilla runs`: runs and dispatches that were started, and canceling them. */

import { InvalidArgumentError, Option, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import type { DispatchView, RunView } from '#operations/runs.ts'
import {
  answerRunOperation,
  cancelRunOperation,
  listRunsOperation,
  type ShownRun,
  showRunOperation,
} from '#operations/runs.ts'
import { type RunStatus, runStatuses, type StoredEvent } from '#services/runs/state/types.ts'
import { type Cli, describe, numberReader, withWide } from '../cli.ts'
import { indented, line } from '../output.ts'
import { showStarted } from './run.ts'
import { createRunPrinter } from './run-printer.ts'

interface ShowOptions {
  json?: boolean
  wide?: boolean
}

/** Gathers `key=value`. */
function metadataReader(given: string, before: Record<string, string> = {}): Record<string, string> {
  const at = given.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('Write key=value.')
  return { ...before, [given.slice(0, at)]: given.slice(at + 1) }
}

interface AnswerOptions {
  json?: boolean
  async?: boolean
  approve?: boolean
  refuse?: boolean
}

interface ListOptions extends ShowOptions {
  agent?: string
  status?: RunStatus
  user?: string
  session?: string
  dispatch?: number
  metadata?: Record<string, string>
  all?: boolean
  limit: number
}

const anId = 'of a run, or the number of a dispatch'

const numberOf = numberReader(1, 999_999_999)

export function registerRuns(program: Program, cli: Cli): void {
  const runs = program
    .command('runs')
    .description('list, show and cancel runs and dispatches that were started')
  const list = runs
    .command('list')
    .option('--agent <codename>', 'only runs of this agent')
    .addOption(new Option('--status <status>', 'only runs with this status').choices(runStatuses))
    .option('--user <id>', 'only runs of this user')
    .option('--session <id>', 'only runs of this session')
    .option('--dispatch <number>', 'only runs of this dispatch', numberOf)
    .option('--metadata <key=value>', 'only runs with this metadata; several must all be met', metadataReader)
    .option('--all', 'reports to the orchestrator, too')
    .option('--limit <count>', 'how many', numberOf, 20)
    .description('runs, the newest first')
  describe(withWide(list), 'flotilla runs list --agent ATLAS').action(
    async ({ json, wide, user, session, dispatch, ...filters }: ListOptions) => {
      const args = {
        ...filters,
        ...(user === undefined ? {} : { userId: user }),
        ...(session === undefined ? {} : { sessionId: session }),
        ...(dispatch === undefined ? {} : { goalId: dispatch }),
      }
      await cli.run(listRunsOperation, args, {
        json,
        wide,
        render: ({ runs: found }) => shownRuns(found),
        gather: (pages, last) => ({ runs: [...pages.flat(), ...last.runs] }),
      })
    },
  )
  const show = runs.command('show').argument('<id>', anId).description('a run and what was said')
  describe(withWide(show), 'flotilla runs show run_6ba5c0a2f1').action(
    async (id: string, { json, wide }: ShowOptions) => {
      const gather = (pages: StoredEvent[][], last: ShownRun): ShownRun =>
        'events' in last ? { ...last, events: [...pages.flat(), ...last.events] } : last
      await cli.run(showRunOperation, { id }, { json, wide, render: renderShown, gather })
    },
  )
  const answer = runs
    .command('answer')
    .argument('<id>', 'of a run that is input_required')
    .argument('[text]', 'the answer')
    .option('--approve', 'approve what the agent asks to do')
    .option('--refuse', 'refuse it')
    .option('--async', 'do not wait for the end')
    .description('answer the question of a run, and show what its agent says then')
  describe(answer, 'flotilla runs answer run_6ba5c0a2f1 --approve').action(
    async (id: string, text: string | undefined, { approve, refuse, ...options }: AnswerOptions) => {
      if ([text, approve, refuse].filter((one) => one !== undefined).length !== 1) {
        throw new AppError('bad_request', 'Give a text, --approve or --refuse: one of them.')
      }
      const args = text === undefined ? { id, approve: approve === true } : { id, text }
      const { run, after } = await cli.execute(answerRunOperation, args)
      const short = { run: run.runId, agent: run.appName, session: run.sessionId, status: run.status }
      await showStarted(cli, { run }, { id: run.runId, short, after }, options)
    },
  )
  const cancel = runs
    .command('cancel')
    .argument('<id>', anId)
    .description('cancel it, with all that joined it')
  describe(cancel, 'flotilla runs cancel run_6ba5c0a2f1').action(
    async (id: string, { json }: { json?: boolean }) => {
      const render = (done: { run: RunView } | { dispatch: DispatchView }) =>
        'run' in done
          ? line`${done.run.runId} ${endingOf(done.run.status)}`
          : line`dispatch ${done.dispatch.goalId} ${endingOf(done.dispatch.status)}`
      await cli.run(cancelRunOperation, { id }, { json, render })
    },
  )
}

/** A run that is at its node ends when the node was asked to stop. */
function endingOf(status: string): string {
  return status === 'running' ? 'is being canceled' : status
}

function renderShown(shown: ShownRun): Shown {
  if ('dispatch' in shown) {
    const { runs, result, ...rest } = shown.dispatch
    const conclusion = result === null ? [] : [{ lines: `conclusion: ${indented(result)}` }]
    return [{ fields: rest }, runsOf(runs), ...conclusion]
  }
  let said = ''
  const printer = createRunPrinter((text) => {
    said += text
  })
  for (const { event } of shown.events) printer.print({ kind: 'event', event })
  const { message, parts: _, ...run } = shown.run
  const sent = !message ? [] : [{ lines: `message: ${indented(message)}` }]
  const answers = said === '' ? [] : [{ lines: said.trimEnd() }]
  return [{ fields: run }, ...sent, ...answers]
}

function runsOf(runs: DispatchView['runs']): Shown {
  return tableOf(runs, {
    agent: ({ agent }) => agent,
    run: ({ runId }) => runId,
    status: ({ status }) => status,
    error: ({ error }) => error?.message ?? null,
  })
}

function shownRuns(runs: RunView[]): Shown {
  return tableOf(runs, {
    run: ({ runId }) => runId,
    agent: ({ appName }) => appName,
    status: ({ status }) => status,
    trigger: ({ trigger }) => trigger,
    user: ({ userId }) => userId,
    session: ({ sessionId }) => sessionId,
    created: ({ createdAt }) => createdAt,
    message: ({ message }) => message,
    error: ({ error }) => error?.code ?? null,
  })
}
