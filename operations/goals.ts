/** The goals of the hub, as operators list, read and set them. */

import { type Static, Type } from 'typebox'
import { wakeOutbox } from '#runtime/notices.ts'
import { goals, viewOfGoal } from '#services/records/api/goals.ts'
import { createRecord } from '#services/records/api/resource.ts'
import { type Goal, goalKind } from '#services/records/goals/goals.ts'
import { notedBy, targetOf } from '#services/records/store/kind.ts'
import { listRecords, readRecord } from '#services/records/store/read.ts'
import { changeRecord } from '#services/records/store/write.ts'
import { type ChangeContext, defineChange } from './change.ts'
import { listPages } from './list-pages.ts'
import { defineOperation, type OperationContext } from './operation.ts'
import { authorNamed, checkedBy, operator } from './operator.ts'

export type GoalView = ReturnType<typeof viewOfGoal>

const text = Type.Optional(Type.String())
const checkFilters = checkedBy(Type.Object(goals.schemas.filters))
const checkGoal = checkedBy(goals.schemas.creation)
const checkChange = checkedBy(goals.schemas.change)

const listArgs = Type.Object({
  status: text,
  priority: text,
  author: text,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
})

export const listGoalsOperation = defineOperation({
  name: 'goals list',
  args: listArgs,
  /** Items are pages before the last. */
  async run(
    { platform, output }: OperationContext<GoalView[]>,
    { limit: most = 100, ...filters }: Static<typeof listArgs>,
  ): Promise<{ goals: GoalView[] }> {
    checkFilters(filters)
    const { relational } = platform.engines
    const goals = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const { rows, next } = await listRecords<Goal>(relational, goalKind, { filters, limit, ...from })
      return { rows: rows.map(viewOfGoal), next }
    })
    return { goals }
  },
})

export const showGoalOperation = defineOperation({
  name: 'goals show',
  args: Type.Object({ id: Type.Integer() }),
  async run({ platform }, { id }): Promise<GoalView> {
    return viewOfGoal(await readRecord<Goal>(platform.engines.relational, goalKind, id))
  },
})

const addArgs = Type.Object({
  title: Type.String(),
  description: text,
  priority: text,
  /** An agent's id. */
  author: text,
})

export const addGoalOperation = defineChange({
  name: 'goals add',
  action: 'goal.create',
  targetOf: () => goalKind.name,
  args: addArgs,
  async run(context: ChangeContext, { author, ...given }): Promise<GoalView> {
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
})

const setArgs = Type.Object({
  id: Type.Integer(),
  title: text,
  description: text,
  priority: text,
  status: text,
})

export const setGoalOperation = defineChange({
  name: 'goals set',
  action: 'goal.change',
  targetOf: ({ id }) => targetOf(goalKind, id),
  args: setArgs,
  async run(context: ChangeContext, { id, ...changes }): Promise<GoalView> {
    checkChange(changes)
    const { relational } = context.platform.engines
    const written = notedBy<Goal>(goalKind, context)
    const goal = await changeRecord<Goal>(relational, goalKind, { id, changes, by: operator, written })
    await wakeOutbox(relational)
    return viewOfGoal(goal)
  },
})
