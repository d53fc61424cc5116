/** Goals: every change of status by everybody, versions, and their outbox rows. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  createGoal,
  type Goal,
  type GoalStatus,
  goalKind,
  goalStatuses,
  moveDispatchGoal,
} from '#services/records/goals/goals.ts'
import type { Author } from '#services/records/store/kind.ts'
import { countByStatus, listRecords, readRecord } from '#services/records/store/read.ts'
import { type ChangeRequest, changeRecord, rewriteRecords } from '#services/records/store/write.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.outbox; delete from platform.goals'))

const author: Author = { name: 'whale', uid: 'uid-whale', isAdmin: false }
const other: Author = { name: 'pulse', uid: 'uid-pulse', isAdmin: false }
const admin: Author = { name: 'axon', uid: 'uid-axon', isAdmin: true }
/** An agent of the same name, made after the author was deleted. */
const namesake: Author = { name: 'whale', uid: 'uid-whale-2', isAdmin: false }

const readGoal = (id: number) => readRecord<Goal>(relational, goalKind, id)
const changeGoal = (request: ChangeRequest<Goal>) => changeRecord<Goal>(relational, goalKind, request)

async function sent() {
  const { rows } = await relational.query<{
    key: string
    value: Record<string, unknown>
    headers: Record<string, string>
  }>(`select key, value, headers from platform.outbox where topic = 'hub.records' order by id`)
  return rows
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error) => error.code,
  )

test('a goal has its defaults, and its row and record are the same', async () => {
  const goal = await createGoal(relational, { title: 'Ship it' }, author, { 'request-id': 'r1' })
  expect(goal).toMatchObject({
    title: 'Ship it',
    description: '',
    priority: 'normal',
    status: 'pending',
    author: 'whale',
    version: 1,
    of_dispatch: false,
  })
  expect(await readGoal(goal.id)).toEqual(goal)
  expect(await sent()).toEqual([
    {
      key: `goal/${goal.id}`,
      value: {
        kind: 'goal',
        id: goal.id,
        version: 1,
        author: 'whale',
        title: 'Ship it',
        text: '',
        priority: 'normal',
        status: 'pending',
        thread_id: null,
        parent_id: null,
        created_at: goal.created_at.getTime(),
        updated_at: goal.updated_at.getTime(),
      },
      headers: { agent: 'whale', 'request-id': 'r1' },
    },
  ])
})

test('a request that runs again finds the goal that it has made, and publishes nothing more', async () => {
  const first = await createGoal(relational, { title: 'once', creationKey: 'k' }, author)
  expect(await createGoal(relational, { title: 'once', creationKey: 'k' }, author)).toEqual(first)
  expect(await sent()).toHaveLength(1)
})

/** What the specification lists, written once more by hand. */
const allowed = new Set([
  'pending>active',
  'pending>canceled',
  'active>completed',
  'active>failed',
  'active>canceled',
])
const changes = goalStatuses.flatMap((from) => goalStatuses.map((to): [GoalStatus, GoalStatus] => [from, to]))

describe.each([
  ['its author', author, true],
  ['an admin', admin, true],
  ['another member', other, false],
  ['an agent of the same name', namesake, false],
] as const)('by %s', (_, by, may) => {
  test.each(changes)('%s → %s', async (from, to) => {
    const { id } = await createGoal(relational, { title: 't' }, author)
    await relational.query('update platform.goals set status = $2 where id = $1', [id, from])
    const expected = !may
      ? 'forbidden'
      : from === to || allowed.has(`${from}>${to}`)
        ? 'done'
        : 'invalid_transition'
    expect(await codeOf(changeGoal({ id, changes: { status: to }, by }))).toBe(expected)
    const after = await readGoal(id)
    const moved = expected === 'done' && from !== to
    expect([after.status, after.version]).toEqual([moved ? to : from, moved ? 2 : 1])
    expect(await sent()).toHaveLength(moved ? 2 : 1)
  })
})

test('an update without a change keeps the version, and a missing goal is not found', async () => {
  const goal = await createGoal(relational, { title: 't', priority: 'high' }, author)
  const changes = { title: 't', priority: 'high', status: 'pending', description: undefined }
  expect(await changeGoal({ id: goal.id, changes, by: author })).toEqual(goal)
  expect(await codeOf(changeGoal({ id: goal.id + 1, changes: {}, by: admin }))).toBe('not_found')
  expect(await codeOf(readGoal(goal.id + 1))).toBe('not_found')
})

test('of two changes of one version at once, the second is refused', async () => {
  const { id } = await createGoal(relational, { title: 't' }, author)
  const isVersion = (version: number) => version === 1
  const change = (title: string) => codeOf(changeGoal({ id, changes: { title }, by: author, isVersion }))
  expect((await Promise.all([change('a'), change('b')])).sort()).toEqual(['done', 'precondition_failed'])
  expect((await sent()).map(({ value }) => value.version)).toEqual([1, 2])
})

test('the goal of a dispatch begins active and is moved by the dispatch alone', async () => {
  const { id, status } = await createGoal(relational, { title: 't', ofDispatch: true }, author)
  expect(status).toBe('active')
  const refused = changeGoal({ id, changes: { status: 'canceled' }, by: admin })
  expect(await codeOf(refused)).toBe('goal_of_dispatch')
  expect((await changeGoal({ id, changes: { title: 'u' }, by: author })).title).toBe('u')
  const moved = await relational.transaction((tx) => moveDispatchGoal(tx, id, 'completed'))
  expect([moved.status, moved.version]).toEqual(['completed', 3])
})

test('a page goes on behind its last goal, whatever comes and goes meanwhile', async () => {
  const ids: number[] = []
  for (let n = 0; n < 7; n++) ids.push((await createGoal(relational, { title: `${n}` }, author)).id)
  const first = await listRecords<Goal>(relational, goalKind, { filters: {}, limit: 3 })
  expect(first.rows.map(({ id }) => id)).toEqual(ids.slice(-3).reverse())
  await createGoal(relational, { title: 'new' }, author)
  await relational.query('delete from platform.goals where id = any($1::bigint[])', [[ids[4]!, ids[2]!]])
  const second = await listRecords<Goal>(relational, goalKind, {
    filters: {},
    limit: 10,
    before: first.next!,
  })
  expect(second.rows.map(({ id }) => id)).toEqual([ids[3], ids[1], ids[0]])
  expect(second.next).toBeUndefined()
  expect(await countByStatus(relational, goalKind)).toEqual({ pending: 6 })
})

test('all goals are written once more, as they are now', async () => {
  const made = await Promise.all(['a', 'b', 'c'].map((title) => createGoal(relational, { title }, author)))
  await relational.query('delete from platform.outbox')
  const steps: number[] = []
  const options = { signal: new AbortController().signal, written: (rows: number) => void steps.push(rows) }
  expect(await rewriteRecords(relational, goalKind, options)).toBe(3)
  expect(steps).toEqual([3])
  expect((await sent()).map(({ key }) => key).sort()).toEqual(made.map(({ id }) => `goal/${id}`).sort())
})
