/** Notes: the threads that they join, and every change of status by everybody. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  createNote,
  type NewNote,
  type Note,
  type NoteStatus,
  noteKind,
  noteStatuses,
} from '#services/records/notes/notes.ts'
import type { Author } from '#services/records/store/kind.ts'
import { listRecords, readRecord } from '#services/records/store/read.ts'
import { type ChangeRequest, changeRecord } from '#services/records/store/write.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.outbox; delete from platform.notes'))

const author: Author = { name: 'whale', uid: 'uid-whale', isAdmin: false }
const other: Author = { name: 'pulse', uid: 'uid-pulse', isAdmin: false }
const admin: Author = { name: 'axon', uid: 'uid-axon', isAdmin: true }
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

const create = (note: Partial<NewNote> = {}) =>
  createNote(relational, { subject: 's', body: 'b', ...note }, author)
const readNote = (id: number) => readRecord<Note>(relational, noteKind, id)
const changeNote = (request: ChangeRequest<Note>) => changeRecord<Note>(relational, noteKind, request)
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error) => error.code,
  )

describe('threads', () => {
  test('a note alone starts a thread of its own', async () => {
    const [one, two] = [await create(), await create()]
    expect(one.thread_id).toMatch(uuid)
    expect(one.parent_id).toBeNull()
    expect(two.thread_id).not.toBe(one.thread_id)
  })

  test('a reply joins the thread of its parent, also deep in it', async () => {
    const root = await create()
    const reply = await create({ parent_id: root.id })
    const deeper = await create({ parent_id: reply.id })
    expect([reply.thread_id, reply.parent_id]).toEqual([root.thread_id, root.id])
    expect([deeper.thread_id, deeper.parent_id]).toEqual([root.thread_id, reply.id])
  })

  test('a thread id alone joins that thread, in any case of its letters', async () => {
    const { thread_id } = await create()
    const joined = await create({ thread_id: thread_id.toUpperCase() })
    expect([joined.thread_id, joined.parent_id]).toEqual([thread_id, null])
  })

  test('parent and thread must agree, and both must be there', async () => {
    const [one, two] = [await create(), await create()]
    const both = await create({ parent_id: one.id, thread_id: one.thread_id })
    expect(both.thread_id).toBe(one.thread_id)
    expect(await codeOf(create({ parent_id: one.id, thread_id: two.thread_id }))).toBe('thread_mismatch')
    expect(await codeOf(create({ parent_id: one.id, thread_id: randomUUID() }))).toBe('thread_mismatch')
    expect(await codeOf(create({ thread_id: randomUUID() }))).toBe('unknown_thread')
    expect(await codeOf(create({ parent_id: two.id + 1_000 }))).toBe('unknown_parent')
    expect(await codeOf(create({ parent_id: two.id + 1_000, thread_id: one.thread_id }))).toBe(
      'unknown_parent',
    )
    const { rows } = await listRecords<Note>(relational, noteKind, {
      filters: { thread_id: one.thread_id },
      limit: 10,
    })
    expect(rows.map(({ id }) => id)).toEqual([both.id, one.id])
  })
})

test('a request that runs again finds its note and thread', async () => {
  const newThreadId = randomUUID()
  const first = await create({ creationKey: 'k', newThreadId })
  expect(first.thread_id).toBe(newThreadId)
  expect(await create({ creationKey: 'k', newThreadId })).toEqual(first)
})

const allowed = new Set([
  'active>resolved',
  'active>archived',
  'resolved>active',
  'resolved>archived',
  'archived>active',
])
const changes = noteStatuses.flatMap((from) => noteStatuses.map((to): [NoteStatus, NoteStatus] => [from, to]))

describe.each([
  ['its author', author, true],
  ['an admin', admin, true],
  ['another member', other, false],
] as const)('by %s', (_, by, may) => {
  test.each(changes)('%s → %s', async (from, to) => {
    const { id } = await create()
    await relational.query('update platform.notes set status = $2 where id = $1', [id, from])
    const expected = !may
      ? 'forbidden'
      : from === to || allowed.has(`${from}>${to}`)
        ? 'done'
        : 'invalid_transition'
    expect(await codeOf(changeNote({ id, changes: { status: to }, by }))).toBe(expected)
    const moved = expected === 'done' && from !== to
    expect(await readNote(id)).toMatchObject({
      status: moved ? to : from,
      version: moved ? 2 : 1,
    })
  })
})

test('changes at once are done one after the other, each with a version and a record of its own', async () => {
  const { id } = await create()
  const subjects = Array.from({ length: 12 }, (_, n) => `subject ${n}`)
  await Promise.all(subjects.map((subject) => changeNote({ id, changes: { subject }, by: author })))
  const note = await readNote(id)
  expect(note.version).toBe(13)
  const { rows } = await relational.query<{ value: { version: number; title: string } }>(
    'select value from platform.outbox where key = $1 order by id',
    [`note/${id}`],
  )
  expect(rows.map(({ value }) => value.version)).toEqual(Array.from({ length: 13 }, (_, n) => n + 1))
  expect(rows.at(-1)!.value.title).toBe(note.subject)
})
