/** One note in its thread. */

import { useState } from 'react'
import { usePathId } from '../data/address.ts'
import { api, take, takePage, takeRows } from '../data/api.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Failed, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Ago } from '../ui/time.tsx'
import { type Note, NoteDialog, NoteStatus } from './notes.tsx'

const nextOf: Record<Note['status'], readonly Note['status'][]> = {
  active: ['resolved', 'archived'],
  resolved: ['active', 'archived'],
  archived: ['active'],
}

/** The oldest notes of a thread are shown. */
const notesShown = 100

export default function NotePage() {
  const id = usePathId()
  const params = { path: { id } }
  const note = useRead(['notes', id], () => take(api.GET('/api/v1/fleet_notes/{id}', { params })))
  const thread = useRead(
    ['notes', id, 'thread'],
    () =>
      takeRows(notesShown, (from) =>
        takePage(api.GET('/api/v1/fleet_notes/{id}/thread', { params: { ...params, query: from } })),
      ),
    5_000,
  )
  const mayReply = useMay('POST /api/v1/fleet_notes')
  const [isReplying, setReplying] = useState(false)
  const reply = mayReply && note.data && (
    <button type="button" className="primary" onClick={() => setReplying(true)}>
      Reply
    </button>
  )
  return (
    <Page title={note.data?.subject ?? `Note ${id}`} actions={reply}>
      <Loaded of={thread}>
        {(notes) => (
          <ul className="records" aria-label="The thread, the oldest first">
            {notes.map((one) => (
              <li key={one.id}>
                <Entry note={one} isAsked={String(one.id) === id} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {isReplying && note.data && <NoteDialog parent={note.data} onClose={() => setReplying(false)} />}
    </Page>
  )
}

function Entry({ note, isAsked }: { note: Note; isAsked: boolean }) {
  const { id, subject, body, status, priority, author, created_at, parent_id } = note
  const mayChange = useMay('PATCH /api/v1/fleet_notes/:id')
  const change = useChange(
    (next: Note['status']) =>
      take(
        api.PATCH('/api/v1/fleet_notes/{id}', {
          params: { path: { id: String(id) } },
          body: { status: next },
        }),
      ),
    ['notes'],
  )
  return (
    <article aria-label={subject}>
      <div className="line">
        <strong className="wrap">
          {isAsked && <span className="hidden">The note that was asked for: </span>}
          {subject}
        </strong>
        <NoteStatus status={status} />
        {priority !== 'normal' && <span>{priority}</span>}
        <span className="dim wrap">
          {author}, <Ago at={created_at} />
          {parent_id !== null && `, reply to ${parent_id}`}
        </span>
        {mayChange &&
          nextOf[status].map((next) => (
            <button
              key={next}
              type="button"
              className="quiet"
              disabled={change.isPending}
              onClick={() => change.mutate(next)}
            >
              {next === 'active' ? 'Activate' : next === 'resolved' ? 'Resolve' : 'Archive'}
              <span className="hidden"> {subject}</span>
            </button>
          ))}
      </div>
      <p className="prose">{body}</p>
      {change.error && <Failed problem={change.error} />}
    </article>
  )
}
