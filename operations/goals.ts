/** The goals of the hub, as operators list, read and set them. */

import { Type } from 'typebox'
import { wakeOutbox } from '#runtime/notices.ts'
import { goals, viewOfGoal } from '#services/records/api/goals.ts'
import { createRecord } from '#services/records/api/resource.ts'
import { type Goal, goalKind, goalStatuses } from '#services/records/goals/goals.ts'
import { notedBy, targetOf } from '#services/records/store/kind.ts'
import { listRecords, readRecord } from '#services/records/store/read.ts'
import { changeRecord } from '#services/records/store/write.ts'
import { type Action, defineAction, type Shown, tableOf } from './action.ts'
import type { OperationContext } from './operation.ts'
import {
  authorNamed,
  checkedBy,
  listArgs,
  listOptions,
  listPages,
  numberOf,
  operator,
  priority,
  text,
  writeOptions,
} from './operator.ts'

type GoalView = ReturnType<typeof viewOfGoal>

const checkFilters = checkedBy(Type.Object(goals.schemas.filters))
const checkGoal = checkedBy(goals.schemas.creation)
const checkChange = checkedBy(goals.schemas.change)
const itsNumber = numberOf('its number')
const shown = (goal: GoalView): Shown => ({ fields: goal, texts: ['description'] })

export const listGoalsAction = defineAction({
  name: 'goals list',
  summary: 'The newest first',
  args: Type.Object(listArgs(goalStatuses)),
  /** Items are pages before the last. */
  async run({ platform, output }: OperationContext<GoalView[]>, { limit: most = 100, ...filters }) {
    checkFilters(filters)
    const { relational } = platform.engines
    const goals = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const { rows, next } = await listRecords<Goal>(relational, goalKind, { filters, limit, ...from })
      return { rows: rows.map(viewOfGoal), next }
    })
    return { goals }
  },
  cli: [
    {
      options: listOptions,
      example: 'flotilla goals list --status pending',
      gather: (pages, last) => ({ goals: [...pages.flat(), ...last.goals] }),
      render: (found) =>
        tableOf(found.goals, {
          goal: ({ id }) => id,
          title: ({ title }) => title,
          author: ({ author }) => author,
          priority: ({ priority }) => priority,
          status: ({ status }) => status,
          updated: ({ updated_at }) => updated_at,
        }),
    },
  ],
})

const showGoalAction = defineAction({
  name: 'goals show',
  summary: 'A goal',
  args: Type.Object({ id: itsNumber }),
  async run({ platform }, { id }) {
    return viewOfGoal(await readRecord<Goal>(platform.engines.relational, goalKind, id))
  },
  cli: [{ positional: ['id'], example: 'flotilla goals show 1', render: shown }],
})

const addGoalAction = defineAction({
  name: 'goals add',
  summary: 'Make a goal, which begins pending',
  change: { action: 'goal.create', target: () => goalKind.name },
  args: Type.Object({ title: Type.String(), description: text, priority, author: text }),
  async run(context, { author, ...given }) {
    const body = checkGoal(given)
    const { relational } = context.platform.engines
    const by = await authorNamed(relational, author)
    const goal = await createRecord(relational, goals, {
      body,
      by,
      written: notedBy<Goal>(goalKind, context),
    })
    await wakeOutbox(relational)
    return viewOfGoal(goal)
  },
  cli: [
    {
      positional: ['title'],
      options: { description: ['text', 'the whole of it'], ...writeOptions },
      example: "flotilla goals add 'Every note is answered' --priority high",
      render: shown,
    },
  ],
})

const setGoalAction = defineAction({
  name: 'goals set',
  summary: 'Change a goal, as an admin may',
  change: { action: 'goal.change', target: ({ id }) => targetOf(goalKind, id) },
  args: Type.Object({
    id: itsNumber,
    title: text,
    description: text,
    priority,
    status: Type.Optional(Type.Enum([...goalStatuses])),
  }),
  async run(context, { id, ...changes }) {
    checkChange(changes)
    const { relational } = context.platform.engines
    const written = notedBy<Goal>(goalKind, context)
    const goal = await changeRecord<Goal>(relational, goalKind, { id, changes, by: operator, written })
    await wakeOutbox(relational)
    return viewOfGoal(goal)
  },
  cli: [
    {
      positional: ['id'],
      options: {
        title: ['text', 'what it is'],
        description: ['text', 'the whole of it'],
        priority: ['priority', 'its priority'],
        status: ['status', 'its status'],
      },
      example: 'flotilla goals set 1 --status active',
      render: shown,
    },
  ],
})

export const goalActions: readonly Action[] = [listGoalsAction, showGoalAction, addGoalAction, setGoalAction]
