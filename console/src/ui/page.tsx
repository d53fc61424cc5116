/** The frame of a page: its heading, what can be done on it, and the title of the document. */

import { type ReactNode, useEffect, useRef } from 'react'

interface PageProps {
  title: string
  /** Buttons next to the heading. */
  actions?: ReactNode
  /** A sentence below the heading. */
  lead?: ReactNode
  children: ReactNode
}

/** Takes the focus when somebody came here by a link, so that the keyboard goes on from the heading. */
export function Page({ title, actions, lead, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Flotilla`
  }, [title])
  useEffect(() => {
    if (document.activeElement === document.body || document.activeElement?.closest('nav'))
      heading.current?.focus({ preventScroll: true })
  }, [])
  return (
    <>
      <header className="page-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead !== undefined && <p className="dim">{lead}</p>}
        </div>
        {actions !== undefined && <div className="actions">{actions}</div>}
      </header>
      {children}
    </>
  )
}

export function Section({
  title,
  actions,
  children,
}: {
  title: string
  actions?: ReactNode
  children: ReactNode
}) {
  return (
    <section aria-label={title}>
      <header className="section-head">
        <h2>{title}</h2>
        {actions !== undefined && <div className="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}
