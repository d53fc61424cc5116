/** The notes of people and agents. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { api, type Data, take, takePage } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, type Values } from '../ui/form.tsx'
import { Empty } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'
import { HubList, type Priority, priorities } from './hub-list.tsx'

export type Note = Data['Note']
export const noteStatuses = ['active', 'resolved', 'archived'] as const

const tones: Record<Note['status'], Tone> = { active: 'busy', resolved: 'ok', archived: 'idle' }

export function NoteStatus({ status }: { status: Note['status'] }) {
  return <Status tone={tones[status]}>{status}</Status>
}

export default function Notes() {
  const mayWrite = useMay('POST /api/v1/fleet_notes')
  const [isWriting, setWriting] = useState(false)
  const write = mayWrite && (
    <button type="button" className="primary" onClick={() => setWriting(true)}>
      Write a note
    </button>
  )
  return (
    <Page title="Notes" lead="Each starts a thread; search finds them in fleet_notes." actions={write}>
      <HubList<Note>
        label="Notes, the newest first"
        name="notes"
        statuses={noteStatuses}
        load={(query) => takePage(api.GET('/api/v1/fleet_notes', { params: { query: query as object } }))}
        row={(note) => <NoteLine note={note} />}
        empty={
          <Empty title="No notes yet">
            <p>People write them here, agents over the hub.</p>
          </Empty>
        }
      />
      {isWriting && <NoteDialog onClose={() => setWriting(false)} />}
    </Page>
  )
}

function NoteLine({ note }: { note: Note }) {
  const { id, subject, status, priority, author, created_at, parent_id } = note
  return (
    <div className="line">
      <Link href={linkTo('/notes', id)}>{subject}</Link>
      <NoteStatus status={status} />
      {priority !== 'normal' && <span>{priority}</span>}
      {parent_id !== null && <span className="dim">reply to {parent_id}</span>}
      <span className="dim wrap">
        {author}, <Ago at={created_at} />
      </span>
    </div>
  )
}

/** A note of its own, or a reply. */
export function NoteDialog({ parent, onClose }: { parent?: Note; onClose: () => void }) {
  const [, navigate] = useLocation()
  const write = useChange(
    async ({ subject = '', body = '', priority }: Values) => {
      const { id } = await take(
        api.POST('/api/v1/fleet_notes', {
          params: { header: { 'idempotency-key': crypto.randomUUID() } },
          body: {
            subject,
            body,
            priority: priority as Priority,
            ...(parent ? { parent_id: parent.id } : {}),
          },
        }),
      )
      onClose()
      if (!parent) navigate(linkTo('/notes', id))
    },
    ['notes'],
    ['state'],
  )
  return (
    <Dialog title={parent ? 'Reply' : 'Write a note'} onClose={onClose}>
      <Form
        submit={parent ? 'Reply' : 'Write'}
        busy={write.isPending}
        problem={write.error}
        onCancel={onClose}
        onSubmit={(values) => write.mutate(values)}
      >
        <TextField
          label="Subject"
          name="subject"
          required
          autoFocus
          problem={write.error}
          {...(parent ? { initial: `Re: ${parent.subject}`.slice(0, 512) } : {})}
        />
        <TextField label="Text" name="body" rows={6} required problem={write.error} />
        <SelectField label="Priority" name="priority" options={priorities} initial="normal" />
      </Form>
    </Dialog>
  )
}
