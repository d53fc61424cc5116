/** Finds the rows that have filter words, in a SQLite file that may be lost at any time. */

import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { createLru } from '#lib/lru.ts'
import { allRows, firstRow } from '#lib/sqlite.ts'
import { wideToken } from '../filter.ts'
import { openTimes, type Times } from './times-index.ts'

/** As a limit: all of them. */
export const everyRow = 2 ** 31

/** Words that SQL checks itself; with more, SQL narrows down and the caller's check of the payload decides. */
const wordsInSqlMax = 12
/** Counting how often a word occurs, to begin with the rarest, ends here. */
const rareMax = 4_096
/** Lists of words whose rows are kept: what searches leave out by default, and another one. */
const keptListsMax = 2
/** The rows without a list's words are kept while they are no more than this. */
export const othersMax = 4_096

/** The rows that have any of the words, and those that have none where these are few. Both follow the writes. */
interface KeptRows {
  words: readonly string[]
  having: Set<number>
  others?: Set<number> | undefined
}

/** A file of another form is made again. */
export const wordsForm = 2

/**
 * Opens the file (`:memory:` for none). Nothing is synced and nothing can be rolled back: everything is one transaction
 * that ends at close. So a word costs microseconds instead of a page in the log, and a file without a clean close is
 * worthless.
 */
export function openWordsFile(path: string) {
  const db = new DatabaseSync(path)
  db.exec(`pragma page_size = 8192; pragma journal_mode = off; pragma synchronous = off;
    pragma locking_mode = exclusive; pragma cache_size = -65536; begin`)
  return {
    /** The words of one collection and generation. */
    open: (name: string): Words => openWords(db, `"w_${tableName(name)}"`),
    times: (name: string): Times => openTimes(db, tableName(name)),
    close(): void {
      db.exec('commit')
      db.close()
    },
  }
}

const tableName = (name: string) => name.replace(/-(\d+)$/, '_$1')

export type Words = ReturnType<typeof openWords>

function openWords(db: DatabaseSync, t: string) {
  db.exec(`create table if not exists ${t} (word text not null, n integer not null, primary key (word, n))
    without rowid`)
  const add = db.prepare(`insert or ignore into ${t} (word, n) values (?, ?)`)
  const remove = db.prepare(`delete from ${t} where word = ? and n = ?`)
  const wide = db.prepare(`select n from ${t} where word = '${wideToken}' order by n limit ?`)
  const howRare = db.prepare(`select count(*) as c from (select 1 from ${t} where word = ? limit ${rareMax})`)
  const having = db.prepare(
    `select json_group_array(n) as ns from ${t} where word in (select value from json_each(?))`,
  )
  const keptLists = createLru<string, KeptRows>(keptListsMax)
  const counting = matchStatements(db, t, (rows) => `select count(*) as c from (${rows})`)
  const listing = matchStatements(db, t, (rows) => rows)

  function rarestFirst(words: string[]): string[] {
    if (words.length < 2) return words
    return words
      .map((word) => ({ word, count: firstRow<{ c: number }>(howRare, word)!.c }))
      .sort((a, b) => a.count - b.count)
      .slice(0, wordsInSqlMax)
      .map(({ word }) => word)
  }
  function readHaving(words: readonly string[]): number[] {
    const { ns } = firstRow<{ ns: string }>(having, JSON.stringify(words))!
    return JSON.parse(ns) as number[]
  }
  /** A long list is read once, not in every search that leaves its rows out. */
  function keptOf(words: readonly string[]): KeptRows {
    const key = words.join(' ')
    let kept = keptLists.get(key)
    if (!kept) {
      kept = { words, having: new Set(readHaving(words)) }
      keptLists.set(key, kept)
    }
    return kept
  }
  return {
    /** `after` null: the row is no more. */
    replace(n: number, before: readonly string[], after: readonly string[] | null): void {
      for (const word of before) if (!after?.includes(word)) remove.run(word, n)
      for (const word of after ?? []) if (!before.includes(word)) add.run(word, n)
      for (const kept of keptLists.values()) follow(kept, n, after)
    },
    /** Row numbers that have every word, at most `limit`; rows under the wide word are not among them. */
    rowsWith: (words: string[], limit: number): number[] =>
      allRows<{ n: number }>(listing(words.length), ...rarestFirst(words), limit).map((row) => row.n),
    /** How many `rowsWith` has; exact only where `decides`. */
    countWith: (words: string[]): number =>
      firstRow<{ c: number }>(counting(words.length), ...rarestFirst(words), everyRow)!.c,
    /** True when this many words are all checked here. */
    decides: (words: number): boolean => words <= wordsInSqlMax,
    /** Row numbers kept under the wide word. */
    wideRows: (limit: number): number[] => allRows<{ n: number }>(wide, limit).map((row) => row.n),
    /** As `rowsWithAny`, read again. */
    rowsWithOneOf: (words: readonly string[]): number[] => [...new Set(readHaving(words))],
    /** The rows that have any of the words. */
    rowsWithAny: (words: readonly string[]): ReadonlySet<number> => keptOf(words).having,
    /** The rows of `all` that have none of the words. */
    rowsWithNone(words: readonly string[], all: () => number[]): number[] {
      const kept = keptOf(words)
      if (kept.others) return [...kept.others]
      const others = all().filter((n) => !kept.having.has(n))
      if (others.length <= othersMax) kept.others = new Set(others)
      return others
    },
    clear(): void {
      db.exec(`delete from ${t}`)
      keptLists.clear()
    },
    drop: (): void => db.exec(`drop table ${t}`),
  }
}

function follow(kept: KeptRows, n: number, after: readonly string[] | null): void {
  kept.having.delete(n)
  kept.others?.delete(n)
  if (after === null) return
  if (kept.words.some((word) => after.includes(word))) kept.having.add(n)
  else kept.others?.add(n)
  if (kept.others && kept.others.size > othersMax) kept.others = undefined
}

/** Statements for "has all of these words", one per number of words. */
function matchStatements(db: DatabaseSync, t: string, around: (rows: string) => string) {
  const prepared = new Map<number, StatementSync>()
  return (words: number): StatementSync => {
    const used = Math.min(words, wordsInSqlMax)
    let statement = prepared.get(used)
    if (!statement) {
      const others = Array.from(
        { length: used - 1 },
        (_, i) => ` and exists (select 1 from ${t} o where o.word = ?${i + 2} and o.n = a.n)`,
      )
      const rows = `select a.n from ${t} a where a.word = ?1${others.join('')} limit ?${used + 1}`
      statement = db.prepare(around(rows))
      prepared.set(used, statement)
    }
    return statement
  }
}
