/** Forms: labelled fields with the messages that the main API gives for them, and buttons that send them. */

import { type FormEvent, type ReactNode, useId } from 'react'
import type { Problem } from '../data/problem.ts'
import { Failed } from './loaded.tsx'

interface FieldProps {
  label: string
  name: string
  hint?: string
  problem?: Problem | null | undefined
}

function Field({
  label,
  hint,
  fault,
  id,
  children,
}: {
  label: string
  hint?: string | undefined
  fault?: string | undefined
  id: string
  children: ReactNode
}) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children}
      {hint && (
        <small id={`${id}-hint`} className="dim">
          {hint}
        </small>
      )}
      {fault && (
        <small id={`${id}-fault`} className="fault">
          {fault}
        </small>
      )}
    </div>
  )
}

interface TextFieldProps extends FieldProps {
  type?: 'text' | 'password' | 'email' | 'number'
  initial?: string
  required?: boolean
  pattern?: string
  min?: number
  autoComplete?: string
  rows?: number
  autoFocus?: boolean
}

export function TextField(props: TextFieldProps) {
  const { label, name, hint, problem, initial, rows, autoFocus, ...given } = props
  const id = useId()
  const fault = problem?.of(name)
  const common = {
    id,
    name,
    defaultValue: initial,
    'aria-invalid': fault ? true : undefined,
    'aria-describedby': `${hint ? `${id}-hint` : ''} ${fault ? `${id}-fault` : ''}`.trim() || undefined,
    // The first field of a dialog or of the sign-in is where somebody goes on.
    ref: autoFocus ? focus : undefined,
  }
  const { required } = given
  return (
    <Field {...{ label, hint, fault, id }}>
      {rows === undefined ? (
        <input {...common} {...given} />
      ) : (
        <textarea {...common} rows={rows} required={required} />
      )}
    </Field>
  )
}

function focus(element: HTMLElement | null): void {
  element?.focus()
}

interface SelectFieldProps extends FieldProps {
  options: readonly (string | { value: string; label: string })[]
  initial?: string
}

export function SelectField({ label, name, hint, problem, options, initial }: SelectFieldProps) {
  const id = useId()
  const fault = problem?.of(name)
  return (
    <Field {...{ label, hint, fault, id }}>
      <select id={id} name={name} defaultValue={initial}>
        {options.map((option) => {
          const { value, label } = typeof option === 'string' ? { value: option, label: option } : option
          return (
            <option key={value} value={value}>
              {label}
            </option>
          )
        })}
      </select>
    </Field>
  )
}

export function CheckField({
  label,
  name,
  onChange,
}: {
  label: string
  name: string
  onChange?: (checked: boolean) => void
}) {
  return (
    <label className="check">
      <input type="checkbox" name={name} onChange={(event) => onChange?.(event.target.checked)} /> {label}
    </label>
  )
}

/** A filter whose value is in the address. */
export function FilterSelect({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: string
  options: readonly string[]
  onChange: (value: string) => void
}) {
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">all</option>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </label>
  )
}

interface FormProps {
  /** The text of the button. */
  submit: string
  busy: boolean
  problem: Problem | null
  danger?: boolean
  onCancel?: () => void
  onSubmit: (values: Values) => void
  children: ReactNode
}

/** A password may begin and end with blanks. */
const passwordFields = new Set(['password', 'current', 'new', 'newAgain'])

/** The text of each field, trimmed except passwords; a field that is empty is undefined. */
export type Values = Record<string, string | undefined>

export function Form({ submit, busy, problem, danger, onCancel, onSubmit, children }: FormProps) {
  function send(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    if (busy) return
    const entries = [...new FormData(event.currentTarget)].map(([name, value]) => [
      name,
      passwordFields.has(name) ? String(value) : String(value).trim() || undefined,
    ])
    onSubmit(Object.fromEntries(entries))
  }
  return (
    <form onSubmit={send}>
      {children}
      {problem && <Failed problem={problem} />}
      <div className="buttons">
        <button type="submit" className={danger ? 'danger' : 'primary'} disabled={busy}>
          {busy ? 'Working…' : submit}
        </button>
        {onCancel && (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </form>
  )
}
