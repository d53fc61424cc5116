/** Names and values of one thing, and values of any form. */

import { Fragment, type ReactNode, useState } from 'react'

export function Facts({ of: facts }: { of: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  )
}

/** JSON that is opened on demand, and made into text only then. */
export function Json({ label, value }: { label: string; value: unknown }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="json" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {isOpen && <pre>{typeof value === 'string' ? value : JSON.stringify(value, null, 2)}</pre>}
    </details>
  )
}
