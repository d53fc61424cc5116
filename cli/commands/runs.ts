/** `flotilla runs`: runs and dispatches that were started, and canceling them. */

import { Option, type Command as Program } from 'commander'
import type { DispatchView, RunView } from '#operations/runs.ts'
import { cancelRunOperation, listRunsOperation, type ShownRun, showRunOperation } from '#operations/runs.ts'
import { type RunStatus, runStatuses, type StoredEvent } from '#services/runs/state/types.ts'
import { type Cli, describe, numberReader } from '../cli.ts'
import { fields, indented, line, table } from '../output.ts'
import { createRunPrinter } from './run-printer.ts'

interface ListOptions {
  json?: boolean
  agent?: string
  status?: RunStatus
  user?: string
  session?: string
  dispatch?: number
  all?: boolean
  limit: number
}

const anId = 'of a run, or the number of a dispatch'

const numberOf = numberReader('It must be a whole number above 0.', 1, 999_999_999)

export function registerRuns(program: Program, cli: Cli): void {
  const runs = program.command('runs').description('runs of agents, and dispatches to all of them')
  const list = runs
    .command('list')
    .option('--agent <codename>', 'only runs of this agent')
    .addOption(new Option('--status <status>', 'only runs with this status').choices(runStatuses))
    .option('--user <id>', 'only runs of this user')
    .option('--session <id>', 'only runs of this session')
    .option('--dispatch <number>', 'only runs of this dispatch', numberOf)
    .option('--all', 'reports to the orchestrator, too')
    .option('--limit <count>', 'how many', numberOf, 20)
    .description('the newest first')
  describe(list, 'flotilla runs list --agent ATLAS').action(
    async ({ json, user, session, dispatch, ...filters }: ListOptions) => {
      const args = {
        ...filters,
        ...(user === undefined ? {} : { userId: user }),
        ...(session === undefined ? {} : { sessionId: session }),
        ...(dispatch === undefined ? {} : { goalId: dispatch }),
      }
      await cli.run(listRunsOperation, args, {
        json,
        render: ({ runs: found }) => tableOf(found),
        gather: (pages, last) => ({ runs: [...pages.flat(), ...last.runs] }),
      })
    },
  )
  const show = runs.command('show').argument('<id>', anId).description('a run and what was said')
  describe(show, 'flotilla runs show run_6ba5c0a2f1').action(
    async (id: string, { json }: { json?: boolean }) => {
      const gather = (pages: StoredEvent[][], last: ShownRun): ShownRun =>
        'events' in last ? { ...last, events: [...pages.flat(), ...last.events] } : last
      await cli.run(showRunOperation, { id }, { json, render: renderShown, gather })
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

function renderShown(shown: ShownRun): string {
  if ('dispatch' in shown) {
    const { runs, result, ...rest } = shown.dispatch
    return `${fields(rest)}\n\n${runTable(runs)}${result === null ? '' : `\n\nconclusion: ${indented(result)}`}`
  }
  let said = ''
  const printer = createRunPrinter((text) => {
    said += text
  })
  for (const { event } of shown.events) printer.print({ kind: 'event', event })
  return `${fields({ ...shown.run })}\n\n${said.trimEnd()}`.trimEnd()
}

function runTable(runs: DispatchView['runs']): string {
  const rows = runs.map(({ agent, runId, status, error }) => [agent, runId, status, error?.message ?? null])
  return table(['agent', 'run', 'status', 'error'], rows)
}

function tableOf(runs: RunView[]): string {
  const rows = runs.map(({ runId, appName, status, trigger, userId, sessionId, createdAt, error }) => [
    runId,
    appName,
    status,
    trigger,
    userId,
    sessionId,
    createdAt,
    error?.code ?? null,
  ])
  return table(['run', 'agent', 'status', 'trigger', 'user', 'session', 'created', 'error'], rows)
}
