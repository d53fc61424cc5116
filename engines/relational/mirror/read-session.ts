/** Makes a connection act as the reading role under a read's settings, and remembers what it has prepared. */

import type pg from 'pg'
import type { ReadOptions } from './port.ts'
import { readerRole } from './tables.ts'

const settleTimeoutMs = 3_000
/** Statements that a connection has prepared: with more it is replaced by a fresh one. */
const preparedMax = 200

interface ReadSessions {
  /** Brings the connection's settings to those of the read; nothing to do when its last read had the same. */
  settle(client: pg.ClientBase, options: ReadOptions): Promise<void>
  /** False while a connection may have other settings, or every right: then it is never used again. */
  isSettled(client: pg.ClientBase): boolean
  /** Notes what the connection has prepared; false when that is enough for it. */
  notePrepared(client: pg.ClientBase, name: string): boolean
}

export function createReadSessions(): ReadSessions {
  const settled = new WeakMap<pg.ClientBase, string>()
  const prepared = new WeakMap<pg.ClientBase, Set<string>>()
  return {
    async settle(client, options) {
      const settings = settingsOf(options)
      const wanted = JSON.stringify(settings)
      if (settled.get(client) === wanted) return
      settled.delete(client)
      const names = Object.keys(settings)
      // Other settings of an earlier read are reset; the role comes last, because it may set less.
      await client.query('reset all')
      await client.query({
        text: `select ${names.map((_, i) => `set_config($${2 * i + 1}, $${2 * i + 2}, false)`).join(', ')}`,
        values: names.flatMap((name) => [name, settings[name]]),
        query_timeout: settleTimeoutMs,
      } as pg.QueryConfig)
      settled.set(client, wanted)
    },
    isSettled: (client) => settled.has(client),
    notePrepared(client, name) {
      const names = prepared.get(client) ?? new Set()
      prepared.set(client, names.add(name))
      return names.size < preparedMax
    },
  }
}

function settingsOf({ timeoutMs, settings }: ReadOptions): Record<string, string> {
  return {
    ...settings,
    statement_timeout: String(timeoutMs),
    idle_in_transaction_session_timeout: '5000',
    default_transaction_read_only: 'on',
    // A filter's literals decide how its rows are best found, also in a prepared statement.
    plan_cache_mode: 'force_custom_plan',
    role: readerRole,
  }
}
