/** The people who may use the console, and their roles. */

import { useState } from 'react'
import { api, type Data, take } from '../data/api.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay, useMe } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, type Values } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { type Secret, SecretDialog } from '../ui/secret.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'
import { accesses } from './agent-dialogs.tsx'

type User = Data['User']
type Role = Data['Role']
type Open = { what: 'role' | 'remove'; user: User } | { what: 'add' } | null

function columnsFor(onOpen: ((open: Open) => void) | null, ownUid: string): Column<User>[] {
  const columns: Column<User>[] = [
    {
      name: 'E-mail',
      cell: ({ email, uid }) => (
        <span className="wrap">
          {email}
          {uid === ownUid && <span className="dim"> (you)</span>}
        </span>
      ),
      by: ({ email }) => email,
    },
    { name: 'Role', cell: ({ role }) => role, by: ({ role }) => role },
    { name: 'Name', cell: ({ name }) => name, by: ({ name }) => name, wide: true },
    {
      name: 'Signs in with',
      cell: ({ signs_in_with, must_change_password }) =>
        `${signs_in_with.join(', ') || '–'}${must_change_password ? ' (one-time)' : ''}`,
      wide: true,
    },
    {
      name: 'Last sign-in',
      cell: ({ signed_in_at }) => <Ago at={signed_in_at} />,
      by: ({ signed_in_at }) => signed_in_at,
      wide: true,
    },
  ]
  if (!onOpen) return columns
  const cell = (user: User) => (
    <span className="actions">
      <button type="button" className="quiet" onClick={() => onOpen({ what: 'role', user })}>
        Role<span className="hidden"> of {user.email}</span>
      </button>
      <button type="button" className="quiet" onClick={() => onOpen({ what: 'remove', user })}>
        Remove<span className="hidden"> {user.email}</span>
      </button>
    </span>
  )
  return [...columns, { name: 'Actions', cell }]
}

export default function People() {
  const users = useRead(['users'], () => take(api.GET('/api/v1/users')), 15_000)
  const { uid } = useMe()
  const mayAdd = useMay('POST /api/v1/users')
  const mayChange = useMay('PATCH /api/v1/users/:user', 'DELETE /api/v1/users/:user')
  const [open, setOpen] = useState<Open>(null)
  const [secret, setSecret] = useState<Secret | null>(null)
  const close = () => setOpen(null)
  const add = mayAdd && (
    <button type="button" className="primary" onClick={() => setOpen({ what: 'add' })}>
      Add a person
    </button>
  )
  return (
    <Page title="People" actions={add}>
      <Loaded of={users}>
        {({ users }) => (
          <Table<User>
            label="People"
            columns={columnsFor(mayChange ? setOpen : null, uid)}
            rows={users}
            keyOf={({ uid }) => uid}
            textOf={({ email, name, role }) => `${email} ${name} ${role}`}
            empty={<Empty title="Nobody yet" />}
          />
        )}
      </Loaded>
      {open?.what === 'add' && (
        <AddDialog
          onClose={close}
          onAdded={(made) => {
            close()
            setSecret(made)
          }}
        />
      )}
      {open?.what === 'role' && <RoleDialog user={open.user} onClose={close} />}
      {open?.what === 'remove' && <RemoveDialog user={open.user} onClose={close} />}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </Page>
  )
}

function AddDialog({ onClose, onAdded }: { onClose: () => void; onAdded: (secret: Secret | null) => void }) {
  const add = useChange(
    ({ email = '', name, role, oidc_subject }: Values) =>
      take(
        api.POST('/api/v1/users', {
          body: {
            email,
            role: role as Role,
            ...(name === undefined ? {} : { name }),
            ...(oidc_subject === undefined ? {} : { oidc_subject }),
          },
        }),
      ),
    ['users'],
  )
  return (
    <Dialog title="Add a person" onClose={onClose}>
      <Form
        submit="Add"
        busy={add.isPending}
        problem={add.error}
        onCancel={onClose}
        onSubmit={(values) => add.mutate(values, { onSuccess: (added) => onAdded(passwordOf(added)) })}
      >
        <TextField label="E-mail" name="email" type="email" required autoFocus problem={add.error} />
        <TextField label="Name" name="name" problem={add.error} />
        <SelectField label="Role" name="role" options={accesses} initial="viewer" problem={add.error} />
        <TextField
          label="Subject at the provider"
          name="oidc_subject"
          hint="Only for who signs in at a provider: then there is no password."
          problem={add.error}
        />
      </Form>
    </Dialog>
  )
}

function passwordOf({ email, one_time_password }: Data['AddedUser']): Secret | null {
  if (one_time_password === null) return null
  return {
    title: `The one-time password of ${email}`,
    text: 'It has to be replaced at the first sign-in.',
    value: one_time_password,
    file: `${email}.txt`,
  }
}

function RoleDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const change = useChange(
    ({ role }: Values) =>
      take(
        api.PATCH('/api/v1/users/{user}', {
          params: { path: { user: user.uid } },
          body: { role: role as Role },
        }),
      ),
    ['users'],
    ['me'],
  )
  return (
    <Dialog title={`The role of ${user.email}`} onClose={onClose}>
      <Form
        submit="Change"
        busy={change.isPending}
        problem={change.error}
        onCancel={onClose}
        onSubmit={(values) => change.mutate(values, { onSuccess: onClose })}
      >
        <SelectField label="Role" name="role" options={accesses} initial={user.role} problem={change.error} />
        <p className="dim">A viewer reads, a member makes, an admin manages. It acts on the next request.</p>
      </Form>
    </Dialog>
  )
}

function RemoveDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const remove = useChange(
    () => take(api.DELETE('/api/v1/users/{user}', { params: { path: { user: user.uid } } })),
    ['users'],
  )
  return (
    <Confirm
      title={`Remove ${user.email}`}
      action="Remove"
      typed={user.email}
      busy={remove.isPending}
      problem={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>Sessions, tokens and open streams of the person end at once.</p>
    </Confirm>
  )
}
