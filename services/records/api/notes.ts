/** /fleet_notes: notes and their threads. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { type PageParameters, page, readPage } from '#runtime/http/paging.ts'
import { createRowText } from '#runtime/http/send-rows.ts'
import { createNote, type Note, noteKind, noteStatuses } from '../notes/notes.ts'
import { readRecord } from '../store/read.ts'
import { type EventParts, registerEvents } from './events/routes.ts'
import { answerPage, idOf, type Resource, type ResourceParts, registerResource } from './resource.ts'
import {
  author,
  authorFilter,
  closedObject,
  idParams,
  line,
  listOf,
  priority,
  text,
  time,
  uuid,
} from './schemas.ts'

const subject = line('1 to 512 characters.', 'Deploying the courier')
const body = text('Text of any form.', 'It runs on the second machine now.')
const status = Type.Enum([...noteStatuses], { type: 'string', title: 'NoteStatus' })
const parentId = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'The `id` of the note that it replies to.',
})

const record = Type.Object(
  {
    id: Type.Integer(),
    subject: Type.String(),
    body: Type.String(),
    priority,
    status,
    thread_id: uuid,
    parent_id: Type.Union([Type.Integer(), Type.Null()], { description: 'null: it replies to none.' }),
    author,
    created_at: time,
    updated_at: time,
  },
  { title: 'Note', description: 'A note.' },
)

const thread = Type.Array(record, { title: 'Thread', description: 'The oldest first.' })

export function viewOfNote(note: Note) {
  const { id, subject, body, priority, status, thread_id, parent_id, author, created_at, updated_at } = note
  const times = { created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
  return { id, subject, body, priority, status, thread_id, parent_id, author, ...times }
}

export type HubParts = ResourceParts & EventParts

const creation = closedObject(
  {
    subject,
    body,
    priority: Type.Optional(priority),
    status: Type.Optional(Type.Literal('active', { description: 'Notes begin active.' })),
    thread_id: Type.Optional(uuid),
    parent_id: Type.Optional(parentId),
  },
  { title: 'NewNote' },
)

export const notes: Resource<Note, typeof creation> = {
  kind: noteKind,
  path: '/fleet_notes',
  tag: 'notes',
  names: { one: 'Note', many: 'Notes' },
  bodyBytesMax: 256 * 1024,
  schemas: {
    record,
    list: listOf(record, 'Notes'),
    creation,
    change: closedObject(
      {
        subject: Type.Optional(subject),
        body: Type.Optional(body),
        priority: Type.Optional(priority),
        status: Type.Optional(status),
      },
      { title: 'NoteChange' },
    ),
    filters: {
      thread_id: Type.Optional(uuid),
      status: Type.Optional(status),
      priority: Type.Optional(priority),
      author: authorFilter,
    },
  },
  creationText:
    'Without `thread_id` and `parent_id` it starts a thread; with `parent_id` it joins the thread of that note, with ' +
    '`thread_id` alone that thread. It is found by search in the collection fleet_notes, as `note-<id>`.',
  changeText:
    'By its author or an admin. Status: active → resolved, archived; resolved → active, archived; archived → active. The same ' +
    'value again is no fault. An archived note is not found by search.',
  creationProblems: ['unknown_parent', 'unknown_thread', 'thread_mismatch'],
  changeProblems: [],
  view: viewOfNote,
  textOf: createRowText(record),
  create: (executor, { status: _, ...note }, by, ids, headers) =>
    createNote(executor, { ...note, ...ids }, by, headers),
}

export function registerNotes(scope: FastifyInstance, parts: HubParts): void {
  const { relational } = parts
  registerResource(scope, parts, notes)
  registerEvents(scope, parts, notes)
  scope.route({
    method: 'GET',
    url: '/fleet_notes/:id/thread',
    config: { problems: ['forbidden', 'not_found'] },
    schema: {
      operationId: 'getNoteThread',
      tags: ['notes'],
      summary: 'The thread of a note, the oldest first',
      params: idParams,
      querystring: closedObject(page),
      response: { 200: thread },
    },
    async handler(request, reply) {
      const { thread_id } = await readRecord<Note>(relational, noteKind, idOf(noteKind, request))
      const query = {
        ...readPage(request.query as PageParameters),
        filters: { thread_id },
        oldestFirst: true,
      }
      return answerPage(request, reply, parts, notes, query)
    },
  })
}
