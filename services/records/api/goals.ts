/** /goals. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { createRowText } from '#runtime/http/send-rows.ts'
import { createGoal, type Goal, goalKind, goalStatuses } from '#services/records/goals/goals.ts'
import { registerEvents } from './events/routes.ts'
import type { HubParts } from './notes.ts'
import { type Resource, registerResource } from './resource.ts'
import { author, authorFilter, closedObject, line, listOf, priority, text, time } from './schemas.ts'

const title = line('1 to 512 characters.', 'Every note is answered')
const description = text('Text of any form; empty where nothing is said.', 'Within a day, by whoever knows.')
const status = Type.Enum([...goalStatuses], { type: 'string', title: 'GoalStatus' })

const record = Type.Object(
  {
    id: Type.Integer(),
    title: Type.String(),
    description: Type.String(),
    priority,
    status,
    author,
    created_at: time,
    updated_at: time,
  },
  { title: 'Goal', description: 'A goal.' },
)

export function viewOfGoal(goal: Goal) {
  const { id, title, description, priority, status, author, created_at, updated_at } = goal
  const times = { created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
  return { id, title, description, priority, status, author, ...times }
}

const creation = closedObject(
  {
    title,
    description: Type.Optional(description),
    priority: Type.Optional(priority),
    status: Type.Optional(Type.Literal('pending', { description: 'Goals begin pending.' })),
  },
  { title: 'NewGoal' },
)

export const goals: Resource<Goal, typeof creation> = {
  kind: goalKind,
  path: '/goals',
  tag: 'goals',
  names: { one: 'Goal', many: 'Goals' },
  bodyBytesMax: 64 * 1024,
  schemas: {
    record,
    list: listOf(record, 'Goals'),
    creation,
    change: closedObject(
      {
        title: Type.Optional(title),
        description: Type.Optional(description),
        priority: Type.Optional(priority),
        status: Type.Optional(status),
      },
      { title: 'GoalChange' },
    ),
    filters: {
      status: Type.Optional(status),
      priority: Type.Optional(priority),
      author: authorFilter,
    },
  },
  creationText: 'It begins pending.',
  changeText:
    'By its author or an admin. Status: pending → active, canceled; active → completed, failed, canceled. The same value again ' +
    'is no fault. The status of a goal that a collective dispatch made follows its runs.',
  creationProblems: [],
  changeProblems: ['goal_of_dispatch'],
  view: viewOfGoal,
  textOf: createRowText(record),
  create: (executor, { status: _, ...goal }, by, { creationKey }, headers) =>
    createGoal(executor, { ...goal, ...(creationKey === undefined ? {} : { creationKey }) }, by, headers),
}

export function registerGoals(scope: FastifyInstance, parts: HubParts): void {
  registerResource(scope, parts, goals)
  registerEvents(scope, parts, goals)
}
