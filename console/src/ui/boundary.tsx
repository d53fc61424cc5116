/** Shows a fault in place of a page that cannot be drawn; without it one page would take the others with it. */

import { Component, type ReactNode } from 'react'
import { Link } from 'wouter'
import { Problem } from '../data/problem.ts'
import { Failed } from './loaded.tsx'
import { Page } from './page.tsx'

interface BoundaryProps {
  /** Another value is another page: it gets its own try. */
  at: string
  children: ReactNode
}

interface BoundaryState {
  /** Anything can be thrown. */
  fault: { error: unknown } | null
}

export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { fault: null }

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { fault: { error } }
  }

  override componentDidUpdate({ at }: BoundaryProps): void {
    if (at !== this.props.at && this.state.fault !== null) this.setState({ fault: null })
  }

  override render(): ReactNode {
    const { fault } = this.state
    return fault === null ? this.props.children : <Fault error={fault.error} />
  }
}

function Fault({ error }: { error: unknown }) {
  return (
    <Page title="This page cannot be shown">
      <Failed problem={problemOf(error)} />
      <p>
        <button type="button" className="primary" onClick={() => location.reload()}>
          Load it again
        </button>{' '}
        <Link href="/">Go to the overview</Link>
      </p>
    </Page>
  )
}

/** With the id of its request, where an answer was refused. */
function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  const reason = error instanceof Error ? error.message : String(error)
  const detail = `The console met something that it does not understand: ${reason}`
  return new Problem(0, { title: 'A fault of the console', detail }, { cause: error })
}
