/** `flotilla goals`: the goals of the hub. */

import { Option, type Command as Program } from 'commander'
import {
  addGoalOperation,
  type GoalView,
  listGoalsOperation,
  setGoalOperation,
  showGoalOperation,
} from '#operations/goals.ts'
import { goalStatuses } from '#services/records/goals/goals.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, table } from '../output.ts'
import { idOf, type ListOptions, listOptions, priorityOption } from './hub-options.ts'

interface WriteOptions {
  json?: boolean
  title?: string
  description?: string
  priority?: string
  status?: string
  author?: string
}

export function registerGoals(program: Program, cli: Cli): void {
  const render = (goal: GoalView) => fields({ ...goal }, ['description'])
  const goals = program.command('goals').description('goals of agents and people')
  const list = listOptions(goals.command('list'), goalStatuses).description('the newest first')
  describe(list, 'flotilla goals list --status pending').action(async ({ json, ...filters }: ListOptions) => {
    await cli.run(listGoalsOperation, filters, {
      json,
      render: ({ goals: found }) => tableOf(found),
      gather: (pages, last) => ({ goals: [...pages.flat(), ...last.goals] }),
    })
  })
  const show = goals.command('show').argument('<id>', 'its number', idOf).description('a goal')
  describe(show, 'flotilla goals show 1').action(async (id: number, { json }: { json?: boolean }) => {
    await cli.run(showGoalOperation, { id }, { json, render })
  })
  const add = goals
    .command('add')
    .argument('<title>')
    .option('--description <text>', 'the whole of it')
    .addOption(priorityOption('default: normal'))
    .option('--author <agent-id>', 'in the name of this agent; default: operator')
    .description('make a goal, which begins pending')
  describe(add, "flotilla goals add 'Every note is answered' --priority high").action(
    async (title: string, { json, ...given }: WriteOptions) => {
      await cli.run(addGoalOperation, { ...given, title }, { json, render })
    },
  )
  const set = goals
    .command('set')
    .argument('<id>', 'its number', idOf)
    .option('--title <text>', 'what it is')
    .option('--description <text>', 'the whole of it')
    .addOption(priorityOption('its priority'))
    .addOption(new Option('--status <status>', 'its status').choices(goalStatuses))
    .description('change a goal, as an admin may')
  describe(set, 'flotilla goals set 1 --status active').action(
    async (id: number, { json, ...changes }: WriteOptions) => {
      await cli.run(setGoalOperation, { ...changes, id }, { json, render })
    },
  )
}

function tableOf(goals: GoalView[]): string {
  const rows = goals.map(({ id, title, author, priority, status, updated_at }) => [
    id,
    title,
    author,
    priority,
    status,
    updated_at,
  ])
  return table(['goal', 'title', 'author', 'priority', 'status', 'updated'], rows)
}
