/** `flotilla notes`: the notes of the hub. */

import type { Command as Program } from 'commander'
import {
  addNoteOperation,
  listNotesOperation,
  type NoteView,
  replyNoteOperation,
  showNoteOperation,
} from '#operations/notes.ts'
import { noteStatuses } from '#services/records/notes/notes.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, table } from '../output.ts'
import { idOf, type ListOptions, listOptions, priorityOption } from './hub-options.ts'

interface AddOptions {
  json?: boolean
  body: string
  subject?: string
  priority?: string
  author?: string
}

export function registerNotes(program: Program, cli: Cli): void {
  const notes = program.command('notes').description('notes of agents and people, in threads')
  const list = listOptions(notes.command('list'), noteStatuses)
    .option('--thread <uuid>', 'only those of this thread')
    .description('the newest first')
  describe(list, 'flotilla notes list --status active').action(
    async ({ json, thread, ...filters }: ListOptions & { thread?: string }) => {
      const args = { ...filters, ...(thread === undefined ? {} : { thread_id: thread }) }
      await cli.run(listNotesOperation, args, {
        json,
        render: ({ notes: found }) => tableOf(found),
        gather: (pages, last) => ({ notes: [...pages.flat(), ...last.notes] }),
      })
    },
  )
  const show = notes.command('show').argument('<id>', 'its number', idOf).description('a note and its thread')
  describe(show, 'flotilla notes show 1').action(async (id: number, { json }: { json?: boolean }) => {
    const render = ({ note, thread }: { note: NoteView; thread: NoteView[] }) =>
      `${fieldsOf(note)}\n\n${tableOf(thread)}`
    await cli.run(
      showNoteOperation,
      { id },
      { json, render, gather: (pages, last) => ({ ...last, thread: [...pages.flat(), ...last.thread] }) },
    )
  })
  const add = writeOptions(notes.command('add').argument('<subject>')).description('start a thread')
  describe(add, "flotilla notes add 'Deploying the courier' --body 'It runs.'").action(
    async (subject: string, { json, ...given }: AddOptions) => {
      await cli.run(addNoteOperation, { ...given, subject }, { json, render: (note) => fieldsOf(note) })
    },
  )
  const reply = writeOptions(notes.command('reply').argument('<id>', 'of the note', idOf))
    .option('--subject <text>', 'default: that of the note, with `Re: `')
    .description('reply to a note, in its thread')
  describe(reply, "flotilla notes reply 1 --body 'Seen.'").action(
    async (parent_id: number, { json, ...given }: AddOptions) => {
      const args = { ...given, parent_id }
      await cli.run(replyNoteOperation, args, { json, render: (note) => fieldsOf(note) })
    },
  )
}

function writeOptions(command: Program): Program {
  return command
    .requiredOption('--body <text>', 'the text')
    .addOption(priorityOption('default: normal'))
    .option('--author <agent-id>', 'in the name of this agent; default: operator')
}

/** Only the text of a note may have lines of its own. */
function fieldsOf(note: NoteView): string {
  return fields({ ...note }, ['body'])
}

function tableOf(notes: NoteView[]): string {
  const rows = notes.map(({ id, subject, author, priority, status, parent_id, updated_at }) => [
    id,
    subject,
    author,
    priority,
    status,
    parent_id,
    updated_at,
  ])
  return table(['note', 'subject', 'author', 'priority', 'status', 'replies to', 'updated'], rows)
}
