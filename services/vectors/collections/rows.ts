/** The rows of collections: listed, made and deleted, each change with its outbox record in one transaction. */

import { randomBytes } from 'node:crypto'
import { v7 as uuidv7 } from 'uuid'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { isCollection, parseStoredName, storedName } from '#engines/vectors/collections.ts'
import { AppError } from '#lib/errors.ts'
import { wakeOutbox } from '#runtime/notices.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import type { CollectionChange } from '#schemas/types.ts'
import { waitUntilPublished } from '#services/access/agents/changes.ts'
import { vectorsCollections } from '#topics/catalog.ts'

/** The four of the platform among them. */
export const collectionsMax = 256
export const collectionName = /^[a-z0-9][a-z0-9_-]{0,63}$/
export const descriptionLengthMax = 1_024

interface Row {
  name: string
  /** Null for the four of the platform. */
  making: string | null
  description: string | null
  created_by: string
  created_at: Date
}

export interface Collection extends Row {
  /** Its name in record keys and engines. */
  stored: string
}

const columns = 'name, making, description, created_by, created_at'

function collectionOf(row: Row): Collection {
  return { ...row, stored: storedName(row.name, row.making) }
}

/** Those that callers see, the oldest first. */
export async function listCollections(executor: SqlExecutor): Promise<Collection[]> {
  const { rows } = await executor.query<Row>(
    `select ${columns} from platform.collections where deleted_at is null order by id`,
  )
  return rows.map(collectionOf)
}

/** Deleted `age_ms` ago, with points in the log or the engines. */
export async function listDying(executor: SqlExecutor): Promise<(Collection & { age_ms: number })[]> {
  const { rows } = await executor.query<Row & { age_ms: number }>(
    `select ${columns}, (extract(epoch from clock_timestamp() - deleted_at) * 1000)::float8 as age_ms
     from platform.collections where deleted_at is not null and purged_at is null order by id`,
  )
  return rows.map((row) => ({ ...collectionOf(row), age_ms: row.age_ms }))
}

/** Throws AppError `collection_not_found`. */
export async function findCollection(executor: SqlExecutor, name: string): Promise<Collection> {
  const { rows } = await executor.query<Row>(
    `select ${columns} from platform.collections where name = $1 and deleted_at is null`,
    [name.replaceAll('\0', '\ufffd').toWellFormed()],
  )
  if (rows[0]) return collectionOf(rows[0])
  throw collectionNotFound(
    name,
    (await listCollections(executor)).map((one) => one.name),
  )
}

const namesShownMax = 20

export function collectionNotFound(name: string, known: readonly string[]): AppError {
  const cut = name.length > 64 ? `${name.slice(0, 64).toWellFormed()}…` : name
  const more = known.length > namesShownMax ? ` and ${known.length - namesShownMax} more` : ''
  return new AppError(
    'collection_not_found',
    `There is no collection named ${JSON.stringify(cut)}: there are ${known.slice(0, namesShownMax).join(', ')}${more}.`,
  )
}

/** Called within the transaction of a change. */
type Note = (tx: SqlExecutor, collection: Collection) => Promise<void>

interface NewCollection {
  name: string
  description: string | null
  /** The agent id, or the uid of a person. */
  createdBy: string
  requestId?: string
  /** A request that may run again makes the same again. */
  making?: string
}

/**
 * Every instance knows it by the time this resolves. Throws AppError `collection_exists`, `too_many_collections`, or
 * `log_unavailable` where a deletion under the same name is not known everywhere yet: then nothing was made.
 */
export async function createCollection(
  relational: Relational,
  { making = newMaking(), ...given }: NewCollection,
  note: Note,
): Promise<Collection> {
  await waitForDeletions(relational, given.name)
  const made = await relational.transaction(async (tx) => {
    // One at a time: the number of collections has a bound.
    await tx.query('lock table platform.collections in share row exclusive mode')
    const { rows } = await tx.query<Row>(
      `select ${columns} from platform.collections where deleted_at is null`,
    )
    const there = rows.find(({ name }) => name === given.name)
    if (there?.making === making) return collectionOf(there)
    if (there) throw new AppError('collection_exists', `There is a collection named "${given.name}" already.`)
    if (rows.length >= collectionsMax) {
      throw new AppError(
        'too_many_collections',
        `There are ${collectionsMax} collections, which is as many as may be.`,
      )
    }
    const inserted = await tx.query<Row>(
      `insert into platform.collections (name, making, description, created_by)
       values ($1, $2, $3, $4) returning ${columns}`,
      [given.name, making, given.description, given.createdBy],
    )
    const collection = collectionOf(inserted.rows[0]!)
    await writeChange(tx, collection, { change: 'created', by: given.createdBy, requestId: given.requestId })
    await note(tx, collection)
    return collection
  })
  await wakeOutbox(relational)
  return made
}

/** An id of a making: 40 random bits. */
function newMaking(): string {
  return randomBytes(5).toString('hex')
}

/** So long instances may still take the name for a former making of it, at most. */
const knownWithinMs = 60_000

/** Else an instance that has not heard of the deletion would write what belongs to the new making into the former one. */
async function waitForDeletions(relational: Relational, name: string): Promise<void> {
  const { rows } = await relational.query<{ outbox_id: number | null }>(
    `select max(o.id) as outbox_id from platform.collections c
       left join platform.outbox o on o.topic = $2 and o.key = c.name || '~' || c.making
     where c.name = $1 and c.deleted_at > now() - make_interval(secs => $3::float8 / 1000)
     having count(*) > 0`,
    [name, vectorsCollections.name, knownWithinMs],
  )
  if (rows[0]) await waitUntilPublished(relational, rows[0].outbox_id ?? 0)
}

/**
 * No read on any instance shows anything of it by the time this resolves; its points are deleted in the log afterwards
 * (purge.ts). Throws AppError `collection_not_found`, `collection_fixed`, or `log_unavailable` when it is deleted, and not
 * every instance knows it yet.
 */
export async function deleteCollection(
  relational: Relational,
  given: { name: string; deletedBy: string; requestId?: string },
  note: Note,
): Promise<Collection> {
  const { name } = given
  if (isCollection(name)) {
    throw new AppError('collection_fixed', `"${name}" belongs to the platform and stays.`)
  }
  // No other text may reach the database, which takes no NUL.
  if (!collectionName.test(name)) await findCollection(relational, name)
  const { collection, outboxId } = await relational.transaction(async (tx) => {
    const { rows } = await tx.query<Row & { deleted_at: Date }>(
      `update platform.collections set deleted_at = clock_timestamp()
       where name = $1 and deleted_at is null returning ${columns}, deleted_at`,
      [name],
    )
    if (!rows[0])
      throw collectionNotFound(
        name,
        (await listCollections(tx)).map((one) => one.name),
      )
    const collection = collectionOf(rows[0])
    const change = { change: 'deleted', by: given.deletedBy, deletedAt: rows[0].deleted_at } as const
    const outboxId = await writeChange(tx, collection, { ...change, requestId: given.requestId })
    await note(tx, collection)
    return { collection, outboxId }
  })
  await wakeOutbox(relational)
  await waitUntilPublished(relational, outboxId)
  return collection
}

function writeChange(
  tx: SqlExecutor,
  { name, making, description, created_by, created_at }: Collection,
  of: {
    change: CollectionChange['change']
    by: string
    deletedAt?: Date
    requestId?: string | undefined
  },
): Promise<number> {
  const key = { name, making: making as string }
  const value: CollectionChange = {
    ...key,
    change: of.change,
    description,
    created_by,
    created_at: created_at.getTime(),
    deleted_at: of.deletedAt?.getTime() ?? null,
  }
  return writeOutbox(tx, {
    topic: vectorsCollections.name,
    key: vectorsCollections.key(key),
    eventId: uuidv7(),
    value,
    headers: {
      [headerNames.agent]: of.by,
      ...(of.requestId === undefined ? {} : { [headerNames.requestId]: of.requestId }),
    },
  })
}

/** Its points are gone from the log: records of it that come later are left out, and readers of the topic forget it. */
export async function markPurged(
  relational: Relational,
  { name, making }: Pick<Collection, 'name' | 'making'>,
): Promise<void> {
  const key = vectorsCollections.key({ name, making: making as string })
  await relational.transaction(async (tx) => {
    await tx.query(
      'update platform.collections set purged_at = clock_timestamp() where making = $1 and purged_at is null',
      [making],
    )
    await writeOutbox(tx, {
      topic: vectorsCollections.name,
      key,
      eventId: uuidv7(),
      value: null,
      headers: {},
    })
  })
  await wakeOutbox(relational)
}

/** Every writer has heard of it by then. */
const heardWithinS = 5
/** Then the last record of it is long written. */
const keptDays = 30

/** Which of these stored names the engines need no more. Forgets the rows in the end. */
export async function listPurged(executor: SqlExecutor, stored: readonly string[]): Promise<string[]> {
  await executor.query(
    'delete from platform.collections where purged_at < now() - make_interval(days => $1)',
    [keptDays],
  )
  const makings = stored.flatMap((name) => parseStoredName(name)?.making ?? [])
  const { rows } = await executor.query<Row>(
    `select ${columns} from platform.collections
     where making = any($1::text[]) and purged_at < clock_timestamp() - make_interval(secs => $2)`,
    [makings, heardWithinS],
  )
  return rows.map((row) => collectionOf(row).stored)
}

/** When the making was purged; null where it was not; undefined where no such making is known. */
export async function purgedAt(executor: SqlExecutor, making: string): Promise<Date | null | undefined> {
  const { rows } = await executor.query<{ purged_at: Date | null }>(
    'select purged_at from platform.collections where making = $1',
    [making],
  )
  return rows[0]?.purged_at
}
