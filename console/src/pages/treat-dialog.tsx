/** Replays or discards dead letters: first it says which ones are meant, then what became of each. */

import { useEffect } from 'react'
import { api, type Data, take } from '../data/api.ts'
import { count, plural } from '../data/format.ts'
import { useChange } from '../data/query.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Failed } from '../ui/loaded.tsx'

export type Verb = 'replay' | 'discard'
export type Meant = Pick<Data['DeadLetterTreatment'], 'ids' | 'filter'>
type Treated = Data['TreatedDeadLetters']

const texts: Record<Verb, { title: string; done: string; about: string }> = {
  replay: {
    title: 'Replay dead letters',
    done: 'replayed',
    about: 'They are put into their topics again, behind newer records.',
  },
  discard: { title: 'Discard dead letters', done: 'discarded', about: 'They are removed for good.' },
}

function treat(verb: Verb, meant: Meant, dryRun: boolean): Promise<Treated> {
  const body = { ...meant, dry_run: dryRun }
  return verb === 'replay'
    ? take(api.POST('/api/v1/dead-letters/replay', { body }))
    : take(api.POST('/api/v1/dead-letters/discard', { body }))
}

export function TreatDialog({ verb, meant, onClose }: { verb: Verb; meant: Meant; onClose: () => void }) {
  const trial = useChange(() => treat(verb, meant, true))
  const work = useChange(() => treat(verb, meant, false), ['dead-letters'], ['groups'], ['state'])
  const { title, done, about } = texts[verb]
  const { mutate: try_ } = trial
  // Once, when it opens.
  useEffect(() => try_(undefined), [try_])
  const problem = trial.error ?? work.error
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{about}</p>
      {work.data ? (
        <>
          <p role="status">
            <strong>
              {count(verb === 'replay' ? work.data.counts.replayed : work.data.counts.discarded)} {done},{' '}
              {count(work.data.counts.refused)} refused
            </strong>
          </p>
          <Refused results={work.data.results} />
        </>
      ) : trial.data ? (
        <>
          <p role="status">
            Dry run: <strong>{plural(trial.data.counts.meant - trial.data.counts.refused, 'record')}</strong>{' '}
            would be {done}
            {goneOf(verb, trial.data) > 0 && `, ${count(goneOf(verb, trial.data))} are gone already`}.
          </p>
          <Superseded verb={verb} counts={trial.data.counts} />
          <Refused results={trial.data.results} />
        </>
      ) : (
        !problem && <p className="dim">Looking which ones are meant…</p>
      )}
      {problem && <Failed problem={problem} />}
      <div className="buttons">
        {!work.data && trial.data && (
          <button
            type="button"
            className={verb === 'discard' ? 'danger' : 'primary'}
            disabled={work.isPending}
            onClick={() => work.mutate(undefined)}
          >
            {work.isPending ? 'Working…' : `${verb === 'replay' ? 'Replay' : 'Discard'} them`}
          </button>
        )}
        <button type="button" onClick={onClose}>
          {work.data ? 'Close' : 'Cancel'}
        </button>
      </div>
    </Dialog>
  )
}

/** A dry run refuses those that are gone, and of a replay those that are superseded. */
function goneOf(verb: Verb, { counts: { refused, superseded } }: Treated): number {
  return verb === 'replay' ? refused - superseded : refused
}

function Superseded({ verb, counts: { superseded, unknown } }: { verb: Verb; counts: Treated['counts'] }) {
  return (
    <>
      {superseded > 0 && (
        <p className={verb === 'replay' ? 'warn-text' : ''}>
          {plural(superseded, 'record')} superseded: {superseded === 1 ? 'its key has' : 'their keys have'} a
          later one{verb === 'replay' && ', so a replay refuses them. Discard them instead'}.
        </p>
      )}
      {unknown > 0 && (
        <p className="dim">
          Of {count(unknown)} it is not known whether they are superseded: very much was written since.
        </p>
      )}
    </>
  )
}

function Refused({ results }: { results: Treated['results'] }) {
  const refused = results.filter(({ status }) => status === 'refused')
  if (refused.length === 0) return null
  return (
    <ul>
      {refused.slice(0, 20).map(({ topic, key, code, message }) => (
        <li key={`${topic} ${key}`} className="wrap">
          <code>{key}</code> {code}: {message}
        </li>
      ))}
      {refused.length > 20 && <li>and {count(refused.length - 20)} more</li>}
    </ul>
  )
}
