/** The collections of vector memory, a search in them by a text, and lists of their points. */

import { type FormEvent, useId } from 'react'
import { Link } from 'wouter'
import { filterWhere, writtenConditions } from '../../../packages/client/src/where.ts'
import { useFilters } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count, plural } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { asksForAuditNotes, withCondition, withoutCondition } from '../data/where.ts'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Collections } from './collections.tsx'
import { PointEntry } from './point-entry.tsx'
import { orders, Points } from './points.tsx'

type Hit = Data['FoundPoints']['results'][number]

export default function Search() {
  const collections = useRead(['collections'], () => take(api.GET('/api/v1/collections')), 15_000)
  return (
    <Page title="Search">
      <Loaded of={collections}>
        {({ collections }) => (
          <>
            <Question names={collections.map(({ collection }) => collection)} />
            <Chips />
            <Answer first={collections[0]?.collection ?? 'fleet_notes'} />
            <Collections collections={collections} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

const fields = ['text', 'like', 'in', 'where', 'limit', 'least', 'order'] as const

/** Its answer is what the address says, so that a link shows the same. */
function Question({ names }: { names: readonly string[] }) {
  const [params, setParams] = useFilters()
  const id = useId()
  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const given = [...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value).trim()])
    setParams(new URLSearchParams(given.filter(([, value]) => value !== '') as [string, string][]))
  }
  return (
    <form key={fields.map((field) => params.get(field)).join(' ')} onSubmit={ask}>
      <div className="field">
        <label htmlFor={id}>What are you looking for?</label>
        <input id={id} type="search" name="text" data-filter defaultValue={params.get('text') ?? ''} />
      </div>
      <div className="filters">
        <label>
          In
          <select name="in" defaultValue={params.get('in') ?? names[0]}>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Where
          <input
            name="where"
            size={28}
            placeholder="status=active, n>5, title~words"
            title="key=value, key=one|two, key!=value, key>5, key<=2026-01-31, key~words; key= for an empty key"
            defaultValue={params.get('where') ?? ''}
          />
        </label>
        <label>
          At most
          <input name="limit" type="number" min={1} max={100} defaultValue={params.get('limit') ?? '10'} />
        </label>
        <label>
          Least score
          <input
            name="least"
            type="number"
            min={-1}
            max={1}
            step="any"
            defaultValue={params.get('least') ?? ''}
          />
        </label>
        <label>
          Without a text, list
          <select name="order" defaultValue={params.get('order') ?? ''}>
            {orders.map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" className="primary">
          Search
        </button>
      </div>
    </form>
  )
}

/** The conditions that count, each with a way to take it back. */
function Chips() {
  const [params] = useFilters()
  const where = params.get('where') ?? ''
  const conditions = writtenConditions(where)
  if (conditions.length === 0) return null
  return (
    <ul className="chips" aria-label="Conditions">
      {conditions.map((one) => (
        <li key={one} className="mono">
          {one}{' '}
          <Link
            href={linkTo('/search', null, {
              ...Object.fromEntries(params),
              where: withoutCondition(where, one),
            })}
            aria-label={`Without ${one}`}
          >
            ×
          </Link>
        </li>
      ))}
    </ul>
  )
}

function Answer({ first }: { first: string }) {
  const [params] = useFilters()
  const [text, like, where, limit, least] = ['text', 'like', 'where', 'limit', 'least'].map(
    (name) => params.get(name) ?? '',
  ) as [string, string, string, string, string]
  const collection = params.get('in') ?? first
  if (text === '' && like === '') {
    return (
      params.has('in') && (
        <Points collection={collection}>{collection === 'fleet_notes' && <AuditHint />}</Points>
      )
    )
  }
  const filter = filterWhere(where)
  const body: Data['CollectionSearch'] = {
    ...(text === '' ? { like } : { text }),
    limit: Number(limit) || 10,
    ...(least === '' ? {} : { score_threshold: Number(least) }),
    // The description writes the conditions of inner filters as any objects.
    ...(filter && { filter: filter as NonNullable<Data['CollectionSearch']['filter']> }),
  }
  return <Hits key={JSON.stringify([collection, body])} collection={collection} body={body} />
}

function Hits({ collection, body }: { collection: string; body: Data['CollectionSearch'] }) {
  const found = useRead(['search', collection, body], () =>
    take(api.POST('/api/v1/collections/{collection}/search', { params: { path: { collection } }, body })),
  )
  // A least score of one's own says what counts.
  const isStrong = ({ score }: Hit, weakBelow = -1) =>
    body.score_threshold !== undefined || score >= weakBelow
  return (
    <Section title={body.like === undefined ? 'Found' : `Like ${body.like}`}>
      <Loaded of={found}>
        {({ results, took_ms, records_scanned, weak_below, warnings = [] }) => {
          const hits = results.filter((hit) => isStrong(hit, weak_below))
          const weak = results.filter((hit) => !isStrong(hit, weak_below))
          return (
            <>
              <p className="dim" role="status">
                {plural(hits.length, 'hit')} of {plural(records_scanned, 'point')} in {count(took_ms)} ms
              </p>
              {warnings.map((warning) => (
                <p key={warning} role="note">
                  {warning}
                </p>
              ))}
              {hits.length === 0 && <Empty title="Nothing found" />}
              <HitList label="Hits, the best first" hits={hits} collection={collection} />
              {weak.length > 0 && (
                <details>
                  <summary>{plural(weak.length, 'weak match', 'weak matches')}</summary>
                  <p className="dim">
                    Below {weak_below}: texts that have nothing to do with each other may score as much.
                  </p>
                  <HitList label="Weak matches, the best first" hits={weak} collection={collection} />
                </details>
              )}
              {collection === 'fleet_notes' && <AuditHint />}
            </>
          )
        }}
      </Loaded>
    </Section>
  )
}

function HitList({ label, hits, collection }: { label: string; hits: readonly Hit[]; collection: string }) {
  if (hits.length === 0) return null
  return (
    <ol className="records" aria-label={label}>
      {hits.map((hit) => (
        <li key={hit.id}>
          <PointEntry point={hit} collection={collection} />
        </li>
      ))}
    </ol>
  )
}

const auditTag = 'tags=auth'

/** Audit notes are in the same collection; a search shows them where the tag is asked for. */
function AuditHint() {
  const [params] = useFilters()
  const where = params.get('where') ?? ''
  if (asksForAuditNotes(where)) return null
  return (
    <p className="dim">
      Audit notes are left out.{' '}
      <Link
        href={linkTo('/search', null, {
          ...Object.fromEntries(params),
          where: withCondition(where, auditTag),
        })}
      >
        Search audit notes
      </Link>
    </p>
  )
}
