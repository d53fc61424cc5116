/** Names and values of one thing, and values of any form. */

import { Fragment, type ReactNode } from 'react'

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

/** JSON that is opened on demand. */
export function Json({ label, value }: { label: string; value: unknown }) {
  return (
    <details className="json">
      <summary>{label}</summary>
      <pre>{typeof value === 'string' ? value : JSON.stringify(value, null, 2)}</pre>
    </details>
  )
}
