/** SQLite FTS5 as the peer: the same records, the same weights in their ratios, porter stems. */

import { existsSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { readJsonl } from '../src/jsonl.ts'

/** 60/40/35/15 divided by 15. */
const weights = '0, 4, 2.67, 2.33, 1, 0'

/** Everything that a result shows lies in the table, as it does in a local index. */
export function buildFts5(input: string, output: string): void {
  if (existsSync(output)) rmSync(output)
  const database = new DatabaseSync(output)
  database.exec('PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF')
  database.exec(
    "CREATE VIRTUAL TABLE records USING fts5(id UNINDEXED, title, slug, path, body, payload UNINDEXED, tokenize = 'porter unicode61')",
  )
  const insert = database.prepare('INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)')
  database.exec('BEGIN')
  readJsonl(input, {
    record({ id, title, slug, path, body, source }) {
      const { id: _id, title: _title, slug: _slug, path: _path, body: _body, ...payload } = source
      insert.run(id, title, slug, path, body, JSON.stringify(payload))
    },
    fault({ line, message }) {
      throw new Error(`line ${line}: ${message}`)
    },
  })
  database.exec('COMMIT')
  database.exec("INSERT INTO records(records) VALUES ('optimize')")
  database.exec('VACUUM')
  database.close()
}

export interface Peer {
  search(query: string, limit: number): string[]
  close(): void
}

export function openFts5(file: string): Peer {
  const database = new DatabaseSync(file, { readOnly: true })
  const select = database.prepare(
    `SELECT id, title, slug, path, payload FROM records WHERE records MATCH ? ORDER BY bm25(records, ${weights}) LIMIT ?`,
  )
  return {
    search(query, limit) {
      const words = query.match(/[\p{L}\p{N}_]+/gu)
      if (!words) return []
      const rows = select.all(words.map((word) => `"${word}"`).join(' OR '), limit)
      return rows.map((row) => String(row.id))
    },
    close: () => database.close(),
  }
}
