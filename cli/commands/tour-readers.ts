/** The steps of the tour that wait until the workers have read what it did: the audit notes, and the lag of all groups. */

import type { ScrolledPoint } from '#client/client.ts'
import { lookUntil } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { type GroupLag, lagOperation } from '#operations/lag.ts'
import { type Tour, type TourResult, timed, tourAgent } from './tour-parts.ts'

const auditWaitMs = 30_000
const lagWaitMs = 15_000
const pollMs = 500
/** Handshake, verify and one search at least. */
const auditNotesMin = 3
const auditNotesShown = 10

/** Give them to `waitForAudit`: earlier tours have notes, too. */
export async function auditedIds(tour: Tour): Promise<ReadonlySet<string>> {
  return new Set((await audited(tour)).map(({ id }) => id))
}

export async function waitForAudit(tour: Tour, before: ReadonlySet<string>): Promise<void> {
  await timed(
    tour,
    'wait for the audit notes',
    () => auditNotes(tour, before),
    (notes) => `${notes} notes about what it did`,
  )
}

export async function waitUntilRead(tour: Tour): Promise<void> {
  await timed(tour, 'wait until all is read', () => untilRead(tour), describeLag)
}

/** What the audit says about the agent, from all its tours. */
async function audited({ cli, client }: Tour): Promise<ScrolledPoint[]> {
  const filter = { must: [{ key: 'tags', match: { value: tourAgent.agent_id } }] }
  const points: ScrolledPoint[] = []
  const pages = client.scrollAll({ collection: 'fleet_notes', limit: 1_000, filter, signal: cli.signal })
  for await (const point of pages) if (point.id.startsWith('audit-')) points.push(point)
  return points
}

/** Notes are written some moments after the operations that they are about. */
async function auditNotes(tour: Tour, before: ReadonlySet<string>): Promise<number> {
  const { cli, result } = tour
  const look = async () => {
    const made = (await audited(tour)).filter(({ id }) => !before.has(id))
    const ended = made.filter(({ payload }) => payload?.outcome !== 'unknown')
    return ended.length >= auditNotesMin ? { made, ended } : undefined
  }
  const late = () => {
    throw new AppError('not_yet_applied', 'The audit notes did not come: see `flotilla lag`.')
  }
  const { made, ended } = await lookUntil(look, {
    everyMs: pollMs,
    withinMs: auditWaitMs,
    signal: cli.signal,
    late,
  })
  result.audit_notes = ended.slice(0, auditNotesShown).map(({ payload }) => ({
    title: String(payload?.title),
    status_code: typeof payload?.status_code === 'number' ? payload.status_code : null,
    took_ms: typeof payload?.took_ms === 'number' ? payload.took_ms : null,
  }))
  return made.length
}

/** Groups with records to read are no fault: others may use the platform meanwhile. */
async function untilRead({ cli, result }: Tour): Promise<TourResult['lag']> {
  const look = async () => {
    const { groups } = await cli.execute(lagOperation, {})
    result.lag = groups.map(({ group, lag, members, rests }: GroupLag) => {
      return { group, lag, members: rests === null ? members : 0 }
    })
    return result.lag.every(({ lag, members }) => lag === 0 || members === 0) ? result.lag : undefined
  }
  const late = () => result.lag
  return lookUntil(look, { everyMs: pollMs, withinMs: lagWaitMs, signal: cli.signal, late })
}

/** A group without members, or that rests: relational-writer sleeps until somebody searches tables. */
function describeLag(groups: TourResult['lag']): string {
  const behind = groups.filter(({ lag, members }) => lag > 0 && members > 0)
  const asleep = groups.filter(({ lag, members }) => lag > 0 && members === 0)
  const read =
    behind.length === 0 ? `${plural(groups.length - asleep.length, 'group')} of readers have read all` : ''
  return [
    read,
    ...behind.map(({ group, lag }) => `${group} has ${plural(lag, 'record')} to read, and goes on`),
    ...asleep.map(
      ({ group, lag }) => `${group} sleeps, with ${plural(lag, 'record')} to read when it is needed`,
    ),
  ]
    .filter((text) => text !== '')
    .join('; ')
}
