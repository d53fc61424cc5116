/** The notes of the hub, as operators list, read and write them. */

import { type Static, Type } from 'typebox'
import { wakeOutbox } from '#runtime/notices.ts'
import { notes, viewOfNote } from '#services/records/api/notes.ts'
import { createRecord } from '#services/records/api/resource.ts'
import { type Note, noteKind } from '#services/records/notes/notes.ts'
import { notedBy, targetOf } from '#services/records/store/kind.ts'
import { listRecords, type PageQuery, readRecord } from '#services/records/store/read.ts'
import { type ChangeContext, defineChange } from './change.ts'
import { listPages } from './list-pages.ts'
import { defineOperation, type OperationContext } from './operation.ts'
import { authorNamed, checkedBy } from './operator.ts'

export type NoteView = ReturnType<typeof viewOfNote>

const threadMax = 1_000
const subjectLengthMax = 512
const replyMark = 'Re: '
const text = Type.Optional(Type.String())
const checkFilters = checkedBy(Type.Object(notes.schemas.filters))
const checkNote = checkedBy(notes.schemas.creation)

const listArgs = Type.Object({
  status: text,
  priority: text,
  author: text,
  thread_id: text,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
})

export const listNotesOperation = defineOperation({
  name: 'notes list',
  args: listArgs,
  /** Items are pages before the last. */
  async run(
    { platform, output }: OperationContext<NoteView[]>,
    { limit = 100, ...filters }: Static<typeof listArgs>,
  ): Promise<{ notes: NoteView[] }> {
    checkFilters(filters)
    return { notes: await pagesOf(platform, output, { filters, limit }) }
  },
})

export const showNoteOperation = defineOperation({
  name: 'notes show',
  args: Type.Object({ id: Type.Integer() }),
  /** The note and its thread, the oldest first. Items are pages of the thread before the last. */
  async run(
    { platform, output }: OperationContext<NoteView[]>,
    { id },
  ): Promise<{ note: NoteView; thread: NoteView[] }> {
    const { relational } = platform.engines
    const note = await readRecord<Note>(relational, noteKind, id)
    const filters = { thread_id: note.thread_id }
    const query = { filters, limit: threadMax, oldestFirst: true }
    return { note: viewOfNote(note), thread: await pagesOf(platform, output, query) }
  },
})

function pagesOf(
  { engines }: OperationContext['platform'],
  output: OperationContext<NoteView[]>['output'],
  query: PageQuery,
): Promise<NoteView[]> {
  return listPages(output, query.limit, async (limit, before: number | undefined) => {
    const from = before === undefined ? {} : { before }
    const { rows, next } = await listRecords<Note>(engines.relational, noteKind, { ...query, limit, ...from })
    return { rows: rows.map(viewOfNote), next }
  })
}

const written = {
  body: Type.String(),
  priority: text,
  /** An agent's id. */
  author: text,
}
const addArgs = Type.Object({ subject: Type.String(), ...written })

export const addNoteOperation = defineChange({
  name: 'notes add',
  action: 'note.create',
  targetOf: () => noteKind.name,
  args: addArgs,
  run: (context: ChangeContext, { author, ...note }) => add(context, author, note),
})

const replyArgs = Type.Object({ parent_id: Type.Integer(), subject: text, ...written })

export const replyNoteOperation = defineChange({
  name: 'notes reply',
  action: 'note.create',
  targetOf: ({ parent_id }) => targetOf(noteKind, parent_id),
  args: replyArgs,
  async run(context: ChangeContext, { author, ...note }): Promise<NoteView> {
    const { relational } = context.platform.engines
    const subject = note.subject ?? replyTo(await readRecord<Note>(relational, noteKind, note.parent_id))
    return add(context, author, { ...note, subject })
  },
})

async function add(context: ChangeContext, author: string | undefined, note: object): Promise<NoteView> {
  const body = checkNote({ ...note })
  const { relational } = context.platform.engines
  const by = await authorNamed(relational, author)
  const made = await createRecord(relational, notes, {
    body,
    by,
    written: notedBy<Note>(noteKind, context),
  })
  await wakeOutbox(relational)
  return viewOfNote(made)
}

/** Cut to what a subject may have. */
function replyTo({ subject }: Note): string {
  const text = subject.startsWith(replyMark) ? subject : `${replyMark}${subject}`
  return [...text].slice(0, subjectLengthMax).join('')
}
