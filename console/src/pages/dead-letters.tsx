/** Dead letters of the workers: replayed or discarded by selection or by filter. */

import { useState } from 'react'
import { useParam } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { bytes, count, plural } from '../data/format.ts'
import { useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Json } from '../ui/facts.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { FollowLink } from './follow-link.tsx'
import { type Meant, TreatDialog, type Verb } from './treat-dialog.tsx'

type Letter = Data['DeadLetters']['dead_letters'][number]

const keyOf = ({ topic, key }: Letter) => `${topic} ${key}`

function columnsFor(onShow: ((letter: Letter) => void) | null): Column<Letter>[] {
  return [
    {
      name: 'Position',
      cell: (letter) =>
        onShow ? (
          <button type="button" className="quiet" onClick={() => onShow(letter)}>
            {letter.key}
          </button>
        ) : (
          <code>{letter.key}</code>
        ),
      by: ({ group, partition, offset }) => `${group}/${partition}/${offset}`,
    },
    {
      name: 'Reason',
      cell: ({ reason }) => <span className="wrap">{reason}</span>,
      by: ({ reason }) => reason,
    },
    { name: 'Topic', cell: ({ topic }) => <code>{topic}</code>, by: ({ topic }) => topic, wide: true },
    {
      name: 'Record key',
      cell: ({ record_key }) => <code className="wrap">{record_key ?? '–'}</code>,
      by: ({ record_key }) => record_key,
      wide: true,
    },
    {
      name: 'Size',
      cell: ({ value_bytes }) => (value_bytes === null ? 'deletion' : bytes(value_bytes)),
      by: ({ value_bytes }) => value_bytes,
      numeric: true,
      wide: true,
    },
    {
      name: 'Attempts',
      cell: ({ attempts }) => count(attempts),
      by: ({ attempts }) => attempts,
      numeric: true,
      wide: true,
    },
    {
      name: 'Given up',
      cell: ({ parked_at }) => <Time at={parked_at} />,
      by: ({ parked_at }) => parked_at,
      wide: true,
    },
  ]
}

/** The filter in the address. */
function useFilter() {
  const [topic, setTopic] = useParam('topic')
  const [group, setGroup] = useParam('group')
  const [key, setKey] = useParam('key')
  const filter = {
    ...(topic === '' ? {} : { topic }),
    ...(group === '' ? {} : { group }),
    ...(key === '' ? {} : { key }),
  }
  return {
    filter,
    fields: { Topic: [topic, setTopic], Group: [group, setGroup], Key: [key, setKey] } as const,
  }
}

export default function DeadLetters() {
  const { filter, fields } = useFilter()
  const letters = useRead(
    ['dead-letters', filter],
    () => take(api.GET('/api/v1/dead-letters', { params: { query: filter } })),
    10_000,
  )
  const mayTreat = useMay('POST /api/v1/dead-letters/replay', 'POST /api/v1/dead-letters/discard')
  const mayShow = useMay('GET /api/v1/dead-letters/show')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [treating, setTreating] = useState<{ verb: Verb; meant: Meant } | null>(null)
  const [shown, setShown] = useState<Letter | null>(null)
  const all = letters.data?.dead_letters ?? []
  const ids = all.filter((one) => chosen.has(keyOf(one))).map(({ topic, key }) => ({ topic, key }))
  const isFiltered = Object.keys(filter).length > 0
  const meantAll: Meant = isFiltered ? { filter } : { ids: all.map(({ topic, key }) => ({ topic, key })) }
  const begin = (verb: Verb) => setTreating({ verb, meant: ids.length > 0 ? { ids } : meantAll })
  const meantCount = ids.length > 0 ? ids.length : isFiltered ? (letters.data?.count ?? 0) : all.length
  return (
    <Page
      title="Dead letters"
      lead="Records that a worker gave up on, kept until they are replayed or discarded."
      actions={
        mayTreat &&
        meantCount > 0 && (
          <>
            <button type="button" onClick={() => begin('replay')}>
              Replay {ids.length > 0 ? plural(ids.length, 'chosen one') : `all ${count(meantCount)}`}
            </button>
            <button type="button" className="danger" onClick={() => begin('discard')}>
              Discard {ids.length > 0 ? plural(ids.length, 'chosen one') : `all ${count(meantCount)}`}
            </button>
          </>
        )
      }
    >
      <div className="filters">
        {Object.entries(fields).map(([label, [value, set]]) => (
          <label key={label}>
            {label}
            <input type="search" value={value} onChange={(event) => set(event.target.value)} />
          </label>
        ))}
      </div>
      <Loaded of={letters}>
        {({ dead_letters, count: total }) => (
          <>
            <Reasons letters={dead_letters} />
            {total > dead_letters.length && (
              <p className="dim">
                The newest {count(dead_letters.length)} of {count(total)}.
              </p>
            )}
            <Table<Letter>
              label="Dead letters"
              columns={columnsFor(mayShow ? setShown : null)}
              rows={dead_letters}
              keyOf={keyOf}
              textOf={({ key, reason, record_key }) => `${key} ${reason} ${record_key}`}
              empty={
                <Empty title={isFiltered ? 'None is meant by the filter' : 'No dead letters: all is well'} />
              }
              {...(mayTreat ? { chosen, onChoose: setChosen } : {})}
            />
          </>
        )}
      </Loaded>
      {treating && (
        <TreatDialog
          {...treating}
          onClose={() => {
            setTreating(null)
            setChosen(new Set())
          }}
        />
      )}
      {shown && <ShowDialog letter={shown} onClose={() => setShown(null)} />}
    </Page>
  )
}

/** The reasons, the most frequent first. */
function Reasons({ letters }: { letters: readonly Letter[] }) {
  const counts = new Map<string, number>()
  for (const { reason } of letters) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  if (counts.size < 2) return null
  const sorted = [...counts].sort(([, a], [, b]) => b - a).slice(0, 5)
  return <p>{sorted.map(([reason, times]) => `${count(times)} × ${reason}`).join(' · ')}</p>
}

function ShowDialog({ letter, onClose }: { letter: Letter; onClose: () => void }) {
  const { topic, key, headers } = letter
  const params = { query: { topic, key } }
  const shown = useRead(['dead-letters', 'show', topic, key], () =>
    take(api.GET('/api/v1/dead-letters/show', { params })),
  )
  return (
    <Dialog title={key} onClose={onClose}>
      <p>
        {letter.reason}, after {plural(letter.attempts, 'attempt')}
      </p>
      <Loaded of={shown}>
        {({ dead_letters: [found] }) =>
          found ? (
            <>
              {found.fault && <p className="fault">{found.fault}</p>}
              <pre>{JSON.stringify(found.value, null, 2)}</pre>
            </>
          ) : (
            <Empty title="It was replayed or discarded meanwhile" />
          )
        }
      </Loaded>
      <Json label="Headers" value={headers} />
      <FollowLink id={headers['request-id']} />
      <div className="buttons">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  )
}
