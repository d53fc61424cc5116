/** Replaces the password: at first, when it must be, and later by choice. */

import { useState } from 'react'
import { api, take } from '../data/api.ts'
import { Problem } from '../data/problem.ts'
import { useChange } from '../data/query.ts'
import { Form, TextField, type Values } from '../ui/form.tsx'
import { renew } from './session.ts'

export function ChangePassword({ onDone, onCancel }: { onDone?: () => void; onCancel?: () => void }) {
  const [unequal, setUnequal] = useState<Problem | null>(null)
  const change = useChange(
    async ({ current = '', new: fresh = '' }: Values) => {
      await take(api.PUT('/api/v1/me/password', { body: { current, new: fresh } }))
      await renew()
    },
    ['me'],
  )
  function send(values: Values) {
    const isEqual = values.new === values.newAgain
    const errors = [{ path: '/newAgain', message: 'is not the same' }]
    setUnequal(
      isEqual
        ? null
        : new Problem(0, { title: 'The new passwords differ', detail: 'Type it twice.', errors }),
    )
    if (isEqual) change.mutate(values, { onSuccess: () => onDone?.() })
  }
  const problem = unequal ?? change.error
  return (
    <Form
      submit="Change the password"
      busy={change.isPending}
      problem={problem}
      onSubmit={send}
      {...(onCancel ? { onCancel } : {})}
    >
      <TextField
        label="Current password"
        name="current"
        type="password"
        required
        autoComplete="current-password"
        autoFocus
        problem={problem}
      />
      <TextField
        label="New password"
        name="new"
        type="password"
        required
        autoComplete="new-password"
        hint="12 to 256 characters, at least 5 different ones, without your e-mail address."
        problem={problem}
      />
      <TextField
        label="New password, again"
        name="newAgain"
        type="password"
        required
        autoComplete="new-password"
        problem={problem}
      />
    </Form>
  )
}

export function FirstPassword() {
  return (
    <main className="sign-in">
      <h1>Choose your password</h1>
      <p>You signed in with a one-time password. Replace it to go on; your other sessions end.</p>
      <ChangePassword />
    </main>
  )
}
