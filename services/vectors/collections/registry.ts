/**
 * What an instance knows of the collections: the rows as they were read last, for as long as the tail of their changes is
 * current and has shown no other. A name that is not among them is asked of the database, so a collection that was just made is
 * known everywhere at once; only a deletion has to be heard of.
 */

import type { Relational } from '#engines/relational/port.ts'
import { isCollection, parseStoredName } from '#engines/vectors/collections.ts'
import { isUnavailable } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { Closeable } from '#lib/resource.ts'
import { type FollowParts, followRecords } from '#runtime/follow/follow-topic.ts'
import { vectorsCollections } from '#topics/catalog.ts'
import { type Collection, collectionNotFound, listCollections, listDying, purgedAt } from './rows.ts'

export type NamedCollection = Pick<Collection, 'name' | 'stored' | 'making'>

interface Known {
  byName: ReadonlyMap<string, Collection>
  /** Stored names of those whose points exist, deleted ones included. */
  written: ReadonlySet<string>
  dying: readonly string[]
  /** Changes that were seen before the rows were read. */
  changes: number
}

/** What a writer does with a record of a collection. */
export type Standing =
  /** Its points exist, or are being deleted in the log: write it. */
  | 'written'
  /** Nothing of it is left, or it was never made here: leave it out. */
  | { purgedAt: Date | null }

export interface Collections extends Closeable {
  /**
   * At once for the four, and where this instance knows it. Throws (or rejects with) AppError `collection_not_found`, or
   * `relational_engine_unavailable` where only the database could say.
   */
  require(name: string): NamedCollection | Promise<NamedCollection>
  /** At once in the usual case; a promise where the database must be asked. */
  standing(stored: string): Standing | Promise<Standing>
  /** All of them, the oldest first. Throws as `require`. */
  list(): Promise<Collection[]>
  /** For search-pg: stored names by name, and those that no search may show. Undefined where there are the four alone. */
  beyondTheFour(): Beyond | Promise<Beyond>
}

type Beyond = Pick<Known, 'byName' | 'dying'> | undefined

/** Makings that were purged, which never changes. */
const purgedKept = 1_000

export async function openCollections(
  parts: FollowParts & { relational: Pick<Relational, 'query'>; changed?(): void },
): Promise<Collections> {
  const { relational } = parts
  let changes = 0
  let known: Known | undefined
  let loading: Promise<Known> | undefined
  const purged = createLru<string, { purgedAt: Date | null }>(purgedKept)
  const tail = await followRecords(parts, vectorsCollections, {
    from: 'end',
    onRecord() {
      changes += 1
      parts.changed?.()
    },
  })

  async function read(): Promise<Known> {
    const seen = changes
    const [live, dying] = await Promise.all([listCollections(relational), listDying(relational)])
    known = {
      byName: new Map(live.map((one) => [one.name, one])),
      written: new Set([...live, ...dying].map(({ stored }) => stored)),
      dying: dying.map(({ stored }) => stored),
      changes: seen,
    }
    return known
  }
  function load(): Promise<Known> {
    loading ??= read().finally(() => {
      loading = undefined
    })
    return loading
  }
  function atHand(): Known | undefined {
    return known?.changes === changes && tail.current() ? known : undefined
  }
  async function ask(): Promise<Known> {
    // After a quiet time the tail has to ask first whether it missed something.
    if (known && (await tail.caughtUp()) && known.changes === changes) return known
    try {
      return await load()
    } catch (error) {
      const still = atHand()
      if (still && isUnavailable(error)) return still
      throw error
    }
  }
  async function find(name: string): Promise<NamedCollection> {
    const first = (await ask()).byName.get(name)
    if (first) return first
    // It may have been made this moment; rows that are being read may be older than that.
    await loading?.catch(() => undefined)
    const now = await load()
    return now.byName.get(name) ?? refuse(name, now)
  }
  async function askStanding(stored: string, making: string): Promise<Standing> {
    if ((await ask()).written.has(stored)) return 'written'
    const found = await purgedAt(relational, making)
    // A row without a time is of a making that is there: it was made after the rows were read.
    if (found === null) return 'written'
    const standing = { purgedAt: found ?? null }
    if (found) purged.set(stored, standing)
    return standing
  }
  // Later it is asked again; the database may be away.
  await load().catch(() => undefined)
  return {
    require(name) {
      if (isCollection(name)) return { name, stored: name, making: null }
      return atHand()?.byName.get(name) ?? find(name)
    },
    standing(stored) {
      if (isCollection(stored)) return 'written'
      if (atHand()?.written.has(stored)) return 'written'
      const making = parseStoredName(stored)?.making
      if (!making) return { purgedAt: null }
      return purged.get(stored) ?? askStanding(stored, making)
    },
    async list() {
      try {
        await loading?.catch(() => undefined)
        return [...(await load()).byName.values()]
      } catch (error) {
        if (!known || !isUnavailable(error)) throw error
        return [...known.byName.values()]
      }
    },
    beyondTheFour() {
      const there = atHand()
      return there ? beyond(there) : ask().then(beyond)
    },
    close: () => tail.close(),
  }
}

function beyond({ byName, dying, written }: Known): Beyond {
  return [...written].every(isCollection) ? undefined : { byName, dying }
}

function refuse(name: string, { byName }: Known): never {
  throw collectionNotFound(name, [...byName.keys()])
}
