/**
 * Who did what to the platform: every change through the main API or the command line is a row, which is what is listed,
 * and by the outbox a record of the topic admin.audit.
 */

import type { FastifyRequest } from 'fastify'
import { v7 as uuidv7 } from 'uuid'
import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { sizedPage } from '#runtime/http/paging.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import type { AdminAction as AdminRecord } from '#schemas/types.ts'
import { adminAudit } from '#topics/catalog.ts'
import { platformKeys } from '../secrets/redact.ts'

export interface Actor {
  kind: 'agent' | 'person' | 'command_line'
  /** The uid of an agent or person; of a command line the user of the system. */
  id: string
}

type AdminOutcome = 'done' | 'refused' | 'failed'

export interface AdminAction {
  actor: Actor
  /** Noun and verb: `agent.provision`. */
  action: string
  /** What it was done to: an agent id, a topic, the key of a dead letter. */
  target: string
  before?: unknown
  after?: unknown
  requestId?: string
  outcome: AdminOutcome
  /** Error code of a refused or failed action. */
  reason?: string
  /** Things that it changed, or tries that it sums up. Default 1. */
  count?: number
  /** An id that was written before is not written again: of what may be noted twice the first counts. */
  id?: string
}

/** What an action says of a change, besides who did it. */
export type ChangeDetails = Partial<
  Pick<AdminAction, 'target' | 'before' | 'after' | 'count' | 'outcome' | 'reason'>
>

/** How the code of a change notes it. */
export interface ChangeNotes {
  /** Notes the change as done, in its own transaction. Without a call it is noted when the change has resolved. */
  note(tx: SqlExecutor, details?: ChangeDetails): Promise<void>
  /** Details for the note that is written when the change ends, in whatever way: for changes that are no rows. */
  describe(details: ChangeDetails): void
}

/**
 * Runs a change that a request asks for. An interface that notes who changed what gives `work` the notes; at others they are
 * undefined, and the records alone say it.
 */
export type RunChange = <T>(
  request: FastifyRequest,
  change: { action: string; target: string },
  work: (notes?: ChangeNotes) => Promise<T>,
) => Promise<T>

/** As it is listed. */
export interface ListedAction {
  id: string
  actor: Actor
  action: string
  target: string
  before: unknown
  after: unknown
  outcome: AdminOutcome
  reason: string | null
  request_id: string | null
  count: number
  occurred_at: string
}

/** Rows are kept as long as the records. */
const keptDays = 365
/** Old rows that one write removes at most. */
const pruneMax = 100
const nameLengthMax = 256
const pageMax = 1_000

/**
 * Writes the row and its outbox record; resolves with its id. Call it in the transaction of the change, where the change
 * is a row: then both happen, or neither. Secrets are cut out of `before` and `after`, and long values are cut.
 */
export async function writeAdminAction(tx: SqlExecutor, action: AdminAction): Promise<string> {
  const id = action.id ?? uuidv7()
  const value: AdminRecord = {
    actor_kind: action.actor.kind,
    actor: plainText(action.actor.id, nameLengthMax),
    action: plainText(action.action, nameLengthMax),
    target: plainText(action.target, nameLengthMax),
    before: detailsOf(action.before),
    after: detailsOf(action.after),
    outcome: action.outcome,
    reason: action.reason ?? null,
    request_id: action.requestId === undefined ? null : plainText(action.requestId, nameLengthMax),
    count: action.count ?? 1,
    occurred_at: Date.now(),
  }
  const { rowCount } = await tx.query(
    `insert into platform.admin_actions
       (id, actor_kind, actor_id, action, target, before, after, reason, request_id, outcome, count, occurred_at)
     values ($1, $2, $3, $4, $5, $6::jsonb, $7::jsonb, $8, $9, $10, $11, $12) on conflict (id) do nothing`,
    [
      id,
      value.actor_kind,
      value.actor,
      value.action,
      value.target,
      value.before,
      value.after,
      value.reason,
      value.request_id,
      value.outcome,
      value.count,
      new Date(value.occurred_at),
    ],
  )
  if (rowCount === 0) return id
  await writeOutbox(tx, {
    topic: adminAudit.name,
    key: adminAudit.key(value.actor),
    eventId: id,
    value,
    headers: value.request_id === null ? {} : { [headerNames.requestId]: value.request_id },
  })
  await prune(tx)
  return id
}

/** Rows that another transaction removes at this moment are left to it. */
async function prune(tx: SqlExecutor): Promise<void> {
  await tx.query(
    `delete from platform.admin_actions where seq in (
       select seq from platform.admin_actions where occurred_at < now() - make_interval(days => $1)
       order by occurred_at limit $2 for update skip locked)`,
    [keptDays, pruneMax],
  )
}

interface ActionPage {
  /** 1 to 1,000. */
  limit: number
  /** As `next` of the page before. */
  cursor?: string
  /** Exactly this actor's id, action or target. */
  actor?: string
  action?: string
  target?: string
}

/** A page of actions, the newest first; `next` is null on the last one. Throws AppError `validation_failed` for a foreign cursor. */
export async function listAdminActions(
  executor: SqlExecutor,
  page: ActionPage,
): Promise<{ actions: ListedAction[]; next: string | null }> {
  const most = Math.min(Math.max(page.limit, 1), pageMax)
  const first = page.cursor === undefined ? undefined : seqOf(page.cursor)
  const conditions = { 'actor_id =': page.actor, 'action =': page.action, 'target =': page.target }
  const { rows, isLast } = await sizedPage<ActionRow>(most, (limit, last) =>
    readActions(executor, { 'seq <': last?.seq ?? first, ...conditions }, 'desc', limit),
  )
  return { actions: rows.map(listed), next: isLast ? null : cursorOf(rows.at(-1)!.seq) }
}

/** `conditions`: the beginning of each in SQL, and its value; undefined matches all. Texts are compared as they were written. */
async function readActions(
  executor: SqlExecutor,
  conditions: Record<string, string | number | Date | undefined>,
  order: 'asc' | 'desc',
  limit: number,
): Promise<ActionRow[]> {
  const params: SqlValue[] = [limit]
  const where = Object.entries(conditions).flatMap(([condition, value]) => {
    if (value === undefined) return []
    params.push(typeof value === 'string' ? plainText(value, nameLengthMax) : value)
    return `${condition} $${params.length}`
  })
  const { rows } = await executor.query<ActionRow>(
    `select seq, id, actor_kind, actor_id, action, target, before, after, outcome, reason, request_id, count, occurred_at
     from platform.admin_actions where ${['true', ...where].join(' and ')} order by seq ${order} limit $1`,
    params,
  )
  return rows
}

const ofRequestMax = 100

/** What one request did, the oldest first; `within` keeps the search small. */
export async function listActionsOf(
  executor: SqlExecutor,
  requestId: string,
  within: { from: Date; to: Date },
): Promise<ListedAction[]> {
  const conditions = { 'occurred_at >=': within.from, 'occurred_at <=': within.to, 'request_id =': requestId }
  const rows = await readActions(executor, conditions, 'asc', ofRequestMax)
  return rows.map(listed)
}

interface ActionRow extends Omit<ListedAction, 'actor' | 'occurred_at'> {
  seq: number
  actor_kind: Actor['kind']
  actor_id: string
  occurred_at: Date
}

function listed({ seq: _, actor_kind: kind, actor_id: id, occurred_at, ...row }: ActionRow): ListedAction {
  return { ...row, actor: { kind, id }, occurred_at: occurred_at.toISOString() }
}

function cursorOf(seq: number): string {
  return Buffer.from(`a${seq}`).toString('base64url')
}

function seqOf(cursor: string): number {
  const [, digits] = /^a(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (digits !== undefined && cursorOf(Number(digits)) === cursor) return Number(digits)
  throw new AppError('validation_failed', 'The cursor is not one that this list answered.', {
    errors: [{ path: '/cursor', message: 'the `next` of the page before' }],
  })
}

const cut = '[cut]'
const jsonLengthMax = 16_384
/** Members that hold a secret, whatever their value looks like. */
const secretNames = /password|secret|private_?key|pem$|token|credential|cookie/i
const idToken = /eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g

/** JSON of `before` or `after`; null for nothing. */
export function detailsOf(value: unknown): string | null {
  if (value === undefined || value === null) return null
  const json = JSON.stringify(value, (name, member: unknown) => {
    if (name !== '' && secretNames.test(name) && member !== null && typeof member !== 'boolean') return cut
    return typeof member === 'string' ? withoutKeys(storable(member)) : member
  })
  if (json === undefined) return null
  return json.length > jsonLengthMax ? JSON.stringify({ cut: true, length: json.length }) : json
}

/** One line of text, cut to `max` characters, without keys of the platform. */
function plainText(text: string, max: number): string {
  return withoutKeys(storable(text)).slice(0, max).toWellFormed()
}

/** The database takes neither NUL nor half a surrogate pair. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD')
}

function withoutKeys(text: string): string {
  return text.replace(platformKeys, cut).replace(idToken, cut)
}
