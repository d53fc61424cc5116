/** The records of a topic as they come, the newest on top. */

import { type FormEvent, memo, useState } from 'react'
import { Link } from 'wouter'
import { useFilters } from '../data/address.ts'
import { count, plural } from '../data/format.ts'
import { linkTo, pathPart } from '../data/links.ts'
import { Json } from '../ui/facts.tsx'
import { Empty, Failed } from '../ui/loaded.tsx'
import { Status } from '../ui/status.tsx'
import { Time } from '../ui/time.tsx'
import { type TailedRecord, useTail } from './use-tail.ts'

const fields = ['partition', 'key', 'header', 'q', 'from'] as const

export function Tail({ topic }: { topic: string }) {
  const [params] = useFilters()
  const [isPaused, setPaused] = useState(false)
  const query = new URLSearchParams()
  for (const field of fields) {
    const value = params.get(field)
    if (value) query.set(field, value)
  }
  if (!query.has('from')) query.set('from', '-20')
  const path = `/api/v1/log/topics/${pathPart(topic)}/tail?${query}`
  const tail = useTail(path, isPaused)
  const { records, waiting, problem, isConnected, skipped, isRefused } = tail
  return (
    <>
      <Filters key={params.toString()} />
      <div className="filters">
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Go on' : 'Pause'}
        </button>
        <span role="status">
          {isRefused ? (
            <Status tone="bad">refused</Status>
          ) : isConnected ? (
            <Status tone={isPaused ? 'idle' : 'busy'}>{isPaused ? 'paused' : 'live'}</Status>
          ) : (
            <Status tone="warn">connecting</Status>
          )}
        </span>
        {isPaused && waiting > 0 && <span className="dim">{plural(waiting, 'record')} waiting</span>}
        {skipped > 0 && <span className="warn-text">{plural(skipped, 'record')} left out</span>}
      </div>
      {problem && <Failed problem={problem} />}
      {records.length === 0 ? (
        <Empty title="Nothing yet">
          <p>Records appear here as they are written.</p>
        </Empty>
      ) : (
        <ul className="records many" aria-label="Records, the newest first">
          {records.map((record) => (
            <li key={`${record.partition}/${record.offset}`}>
              <RecordLine record={record} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

/** A record never changes: it is drawn once, however often the list is. */
const RecordLine = memo(function RecordLine({ record }: { record: TailedRecord }) {
  const { partition, offset, timestamp, key, headers, value, of, cut, fault } = record
  const requestId = headers['request-id']
  return (
    <>
      <div className="line">
        <code>
          {partition}/{offset}
        </code>
        <Time at={timestamp} />
        <code className="wrap">{key ?? 'no key'}</code>
        {headers.agent && <span>{headers.agent}</span>}
        {requestId && <Link href={linkTo('/requests', requestId)}>request</Link>}
        {of > 1 && <span className="warn-text">1 of {count(of)}</span>}
        {fault && <span className="fault">{fault}</span>}
      </div>
      {value === null ? (
        <p className="dim">Deletes its key.</p>
      ) : (
        <Json
          label={previewOf(value)}
          value={cut ? `${value}\n… of ${count(cut.length)} characters` : value}
        />
      )}
      {Object.keys(headers).length > 0 && <Json label="Headers" value={headers} />}
    </>
  )
})

const previewLengthMax = 160

function previewOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > previewLengthMax ? `${text.slice(0, previewLengthMax)}…` : text
}

/** They are the server's: the stream begins again when they change. */
function Filters() {
  const [params, setParams] = useFilters()
  function apply(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const entries = [...new FormData(event.currentTarget)].map(([name, value]) => [
      name,
      String(value).trim(),
    ])
    setParams(new URLSearchParams(entries.filter(([, value]) => value !== '') as [string, string][]))
  }
  return (
    <form className="filters" onSubmit={apply}>
      {fields.map((field) => (
        <label key={field}>
          {labels[field]}
          <input
            name={field}
            size={field === 'partition' || field === 'from' ? 6 : 14}
            defaultValue={params.get(field) ?? ''}
            placeholder={examples[field]}
            {...(field === 'q' ? { 'data-filter': true } : {})}
          />
        </label>
      ))}
      <button type="submit">Apply</button>
    </form>
  )
}

const labels: Record<(typeof fields)[number], string> = {
  partition: 'Partition',
  key: 'Key',
  header: 'Header',
  q: 'Text',
  from: 'From',
}
const examples: Record<(typeof fields)[number], string> = {
  partition: 'all',
  key: 'exactly',
  header: 'name:value',
  q: 'anywhere',
  from: '-20',
}
