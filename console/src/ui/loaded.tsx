/** The states of a page whose data are on their way, cannot be had, or are old. */

import { type ReactNode, useEffect, useState } from 'react'
import type { Problem } from '../data/problem.ts'
import type { Read } from '../data/query.ts'
import { Copyable } from './copyable.tsx'
import { Ago } from './time.tsx'

export function Loaded<T>({ of: read, children }: { of: Read<T>; children: (data: T) => ReactNode }) {
  const isLate = useLate(read.isFetching && read.data === undefined)
  if (read.data === undefined) {
    if (read.error) return <Failed problem={read.error} retry={() => void read.refetch()} />
    return <p className="dim loading">{isLate ? 'Loading…' : '\u00a0'}</p>
  }
  return (
    <>
      {read.error && (
        <div className="notice warn" role="status">
          <span>
            Shown as it was <Ago at={read.dataUpdatedAt} />: {read.error.message}
          </span>
          <button type="button" onClick={() => void read.refetch()}>
            Try again
          </button>
        </div>
      )}
      {children(read.data)}
    </>
  )
}

export function Failed({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <div>
        <strong>{problem.title}</strong>
        <p>{problem.message}</p>
        {problem.errors
          .filter(({ message }) => !problem.message.includes(message))
          .map(({ path, message }) => (
            <p key={path}>
              <code>{path || 'body'}</code>: {message}
            </p>
          ))}
        {problem.retryAfter !== null && <p>Try again in {Math.ceil(problem.retryAfter)} s.</p>}
        {problem.requestId && (
          <p className="dim">
            Request <Copyable text={problem.requestId} />
          </p>
        )}
      </div>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children}
    </div>
  )
}

/** False at first, so that fast answers do not flicker. */
function useLate(waiting: boolean): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    if (!waiting) return setLate(false)
    const timer = setTimeout(() => setLate(true), 300)
    return () => clearTimeout(timer)
  }, [waiting])
  return isLate
}
