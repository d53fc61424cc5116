/** A point in a list: its title, text, tags and times, with links to points like it. */

import { Link } from 'wouter'
import { useFilters } from '../data/address.ts'
import type { Data } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { withCondition } from '../data/where.ts'
import { Copyable } from '../ui/copyable.tsx'
import { Json } from '../ui/facts.tsx'
import { Time } from '../ui/time.tsx'

/** The score is a hit's alone. */
type Shown = Omit<Data['FoundPoints']['results'][number], 'score'> & { score?: number }

export function PointEntry({ point, collection }: { point: Shown; collection: string }) {
  const [params] = useFilters()
  const where = params.get('where')
  const { id, score, payload = {}, expires_at } = point
  const { title, text, status, tags, updated_at } = payload
  return (
    <>
      <div className="line">
        {score !== undefined && <Score score={score} />}
        {typeof title === 'string' && <strong className="wrap">{title}</strong>}
        <Copyable text={id} />
        {typeof status === 'string' && <Value name="status" value={status} />}
        {Array.isArray(tags) &&
          tags.map((tag) => typeof tag === 'string' && <Value key={tag} name="tags" value={tag} />)}
        {typeof updated_at === 'string' && <span className="dim">{updated_at}</span>}
        {expires_at !== undefined && (
          <span className="dim">
            expires <Time at={expires_at} />
          </span>
        )}
        <Link href={linkTo('/search', null, { in: collection, like: id, ...(where ? { where } : {}) })}>
          Similar<span className="hidden"> to {id}</span>
        </Link>
      </div>
      {typeof text === 'string' && <p className="wrap">{beginningOf(text)}</p>}
      <Json label="Payload" value={payload} />
    </>
  )
}

function Score({ score }: { score: number }) {
  const share = Math.max(0, Math.min(100, score * 100))
  return (
    <span>
      <span className="bar" aria-hidden="true">
        <span style={{ width: `${share}%` }} />
      </span>
      <span className="mono">{score.toFixed(3)}</span>
    </span>
  )
}

const shownMax = 300

function beginningOf(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax).toWellFormed()}…` : text
}

/** Adds itself to the conditions. */
function Value({ name, value }: { name: string; value: string }) {
  const [params] = useFilters()
  const where = withCondition(params.get('where') ?? '', `${name}=${value}`)
  return (
    <Link href={linkTo('/search', null, { ...Object.fromEntries(params), where })}>{`${name}=${value}`}</Link>
  )
}
