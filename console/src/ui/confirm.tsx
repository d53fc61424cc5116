/** Asks before something that cannot be taken back; where it destroys a named thing, its name must be typed. */

import { type ReactNode, useState } from 'react'
import type { Problem } from '../data/problem.ts'
import { Dialog } from './dialog.tsx'
import { Form } from './form.tsx'

interface ConfirmProps {
  title: string
  /** The text of the button. */
  action: string
  /** The name to be typed. */
  typed?: string
  busy: boolean
  problem: Problem | null
  onConfirm: () => void
  onClose: () => void
  children: ReactNode
}

export function Confirm({ title, action, typed, busy, problem, onConfirm, onClose, children }: ConfirmProps) {
  const [text, setText] = useState('')
  const isReady = typed === undefined || text === typed
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit={action}
        busy={busy || !isReady}
        danger
        problem={problem}
        onCancel={onClose}
        onSubmit={onConfirm}
      >
        {children}
        {typed !== undefined && (
          <label className="field">
            <span>
              Type <code>{typed}</code> to go on
            </span>
            <input value={text} autoComplete="off" onChange={(event) => setText(event.target.value)} />
          </label>
        )}
      </Form>
    </Dialog>
  )
}
