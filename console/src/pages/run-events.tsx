/** The events of a run or a dispatch, one below the other: what the keyboard and screen readers use. */

import { confirmation } from '../../../packages/client/src/answer-parts.ts'
import { plural } from '../data/format.ts'
import { Json } from '../ui/facts.tsx'
import { Empty, Failed } from '../ui/loaded.tsx'
import { Prose } from '../ui/markdown.tsx'
import { Section } from '../ui/page.tsx'
import { Time } from '../ui/time.tsx'
import { isFault, type RunEvent, type RunEvents } from './use-run-events.ts'

export function EventList({ following: { events, isLive, problem } }: { following: RunEvents }) {
  return (
    <Section title="Events">
      <p className="dim" role="status">
        {plural(events.length, 'event')}
        {isLive && ', live'}
      </p>
      {problem && <Failed problem={problem} />}
      {!isLive && events.length === 0 && <Empty title="It ended without an event" />}
      <ol className="records" aria-label="Events, the oldest first">
        {events.map((event) => (
          <li key={event.number}>
            <EventEntry event={event} />
          </li>
        ))}
      </ol>
    </Section>
  )
}

function EventEntry({ event }: { event: RunEvent }) {
  const { number, author, timestamp, content, errorCode, errorMessage } = event
  const texts = (content?.parts ?? []).flatMap((part) => {
    const said = typeof part.text === 'string' ? part.text : decisionIn(part)
    return said === undefined ? [] : [said]
  })
  return (
    <>
      <div className="line">
        <code>{number}</code>
        <Time at={timestamp * 1_000} />
        <strong>{author}</strong>
        {isFault(event) ? (
          <span className="fault">{[errorCode, errorMessage].filter(Boolean).join(': ')}</span>
        ) : (
          errorCode && <span className="dim">{errorCode}</span>
        )}
      </div>
      {texts.length > 0 && <Prose>{texts.join('\n')}</Prose>}
      <Json label="JSON" value={event} />
    </>
  )
}

/** What a person decided about a call that asked for it. */
function decisionIn({ functionResponse }: Record<string, unknown>): string | undefined {
  const { name, response } = (functionResponse ?? {}) as {
    name?: unknown
    response?: { confirmed?: unknown }
  }
  if (name !== confirmation || typeof response?.confirmed !== 'boolean') return undefined
  return response.confirmed ? 'Approved' : 'Refused'
}
