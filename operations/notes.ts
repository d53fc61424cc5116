/** The notes of the hub, as operators list, read and write them. */

import { Type } from 'typebox'
import { wakeOutbox } from '#runtime/notices.ts'
import { notes, viewOfNote } from '#services/records/api/notes.ts'
import { createRecord } from '#services/records/api/resource.ts'
import { type Note, noteKind, noteStatuses } from '#services/records/notes/notes.ts'
import { notedBy, targetOf } from '#services/records/store/kind.ts'
import { listRecords, type PageQuery, readRecord } from '#services/records/store/read.ts'
import { type Action, defineAction, type Shown, tableOf } from './action.ts'
import type { ChangeContext } from './change.ts'
import type { OperationContext } from './operation.ts'
import {
  authorNamed,
  checkedBy,
  listArgs,
  listOptions,
  listPages,
  numberOf,
  priority,
  text,
  writeOptions,
} from './operator.ts'

type NoteView = ReturnType<typeof viewOfNote>
type Context = OperationContext<NoteView[]>

const threadMax = 1_000
const subjectLengthMax = 512
const replyMark = 'Re: '
const checkFilters = checkedBy(Type.Object(notes.schemas.filters))
const checkNote = checkedBy(notes.schemas.creation)

/** Only the text of a note may have lines of its own. */
const shown = (note: NoteView): Shown => ({ fields: note, texts: ['body'] })
const shownAll = (all: readonly NoteView[]) =>
  tableOf(all, {
    note: ({ id }) => id,
    subject: ({ subject }) => subject,
    author: ({ author }) => author,
    priority: ({ priority }) => priority,
    status: ({ status }) => status,
    'replies to': ({ parent_id }) => parent_id,
    updated: ({ updated_at }) => updated_at,
  })

export const listNotesAction = defineAction({
  name: 'notes list',
  summary: 'The newest first',
  args: Type.Object({ ...listArgs(noteStatuses), thread_id: text }),
  /** Items are pages before the last. */
  async run({ platform, output }: Context, { limit = 100, ...filters }) {
    checkFilters(filters)
    return { notes: await pagesOf(platform, output, { filters, limit }) }
  },
  cli: [
    {
      options: { ...listOptions, thread_id: ['uuid', 'only those of this thread'] },
      words: { thread_id: 'thread' },
      example: 'flotilla notes list --status active',
      gather: (pages, last) => ({ notes: [...pages.flat(), ...last.notes] }),
      render: (found) => shownAll(found.notes),
    },
  ],
})

export const showNoteAction = defineAction({
  name: 'notes show',
  summary: 'A note and its thread',
  args: Type.Object({ id: numberOf('its number') }),
  /** The note and its thread, the oldest first. Items are pages of the thread before the last. */
  async run({ platform, output }: Context, { id }) {
    const { relational } = platform.engines
    const note = await readRecord<Note>(relational, noteKind, id)
    const filters = { thread_id: note.thread_id }
    const query = { filters, limit: threadMax, oldestFirst: true }
    return { note: viewOfNote(note), thread: await pagesOf(platform, output, query) }
  },
  cli: [
    {
      positional: ['id'],
      example: 'flotilla notes show 1',
      gather: (pages, last) => ({ ...last, thread: [...pages.flat(), ...last.thread] }),
      render: ({ note, thread }) => [shown(note), shownAll(thread)],
    },
  ],
})

function pagesOf(
  { engines }: Context['platform'],
  output: Context['output'],
  query: PageQuery,
): Promise<NoteView[]> {
  return listPages(output, query.limit, async (limit, before: number | undefined) => {
    const from = before === undefined ? {} : { before }
    const { rows, next } = await listRecords<Note>(engines.relational, noteKind, { ...query, limit, ...from })
    return { rows: rows.map(viewOfNote), next }
  })
}

const written = { body: Type.String(), priority, author: text }
const bodyOption = { body: ['text', 'the text'], ...writeOptions } as const

const addNoteAction = defineAction({
  name: 'notes add',
  summary: 'Start a thread',
  change: { action: 'note.create', target: () => noteKind.name },
  args: Type.Object({ subject: Type.String(), ...written }),
  run: (context, { author, ...note }) => add(context, author, note),
  cli: [
    {
      positional: ['subject'],
      options: bodyOption,
      example: "flotilla notes add 'Deploying the courier' --body 'It runs.'",
      render: shown,
    },
  ],
})

export const replyNoteAction = defineAction({
  name: 'notes reply',
  summary: 'Reply to a note, in its thread',
  change: { action: 'note.create', target: ({ parent_id }) => targetOf(noteKind, parent_id) },
  args: Type.Object({ parent_id: numberOf('of the note'), subject: text, ...written }),
  async run(context, { author, ...note }) {
    const { relational } = context.platform.engines
    const subject = note.subject ?? replyTo(await readRecord<Note>(relational, noteKind, note.parent_id))
    return add(context, author, { ...note, subject })
  },
  cli: [
    {
      positional: ['parent_id'],
      options: { ...bodyOption, subject: ['text', 'default: that of the note, with `Re: `'] },
      words: { parent_id: 'id' },
      example: "flotilla notes reply 1 --body 'Seen.'",
      render: shown,
    },
  ],
})

export const noteActions: readonly Action[] = [
  listNotesAction,
  showNoteAction,
  addNoteAction,
  replyNoteAction,
]

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
