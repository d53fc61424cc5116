/** Listens to NOTIFY on one connection for all channels, which is opened again whenever it breaks. */

import type pg from 'pg'
import type { Logger } from 'pino'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { quoteIdentifier } from './copy-format.ts'
import { relationalUnavailable } from './sql-faults.ts'

const reconnectBackoff = { baseMs: 200, maxMs: 5_000 }

export function createListener(createClient: () => pg.Client, log: Logger) {
  const channels = new Map<string, Set<(payload: string) => void>>()
  const closed = new AbortController()
  let client: Promise<pg.Client> | undefined
  let last: Promise<unknown> = Promise.resolve()

  /** One statement after the other: a connection takes only one at a time. */
  function query(statement: string): Promise<unknown> {
    const done = last.then(async () => (await connected()).query(statement))
    last = done.catch(() => {})
    return done
  }

  async function open(): Promise<pg.Client> {
    const opened = createClient()
    opened.on('error', () => {})
    opened.on('end', () => {
      client = undefined
      if (channels.size > 0 && !closed.signal.aborted) void reopen()
    })
    opened.on('notification', ({ channel, payload }) => {
      for (const listener of channels.get(channel) ?? []) listener(payload ?? '')
    })
    await opened.connect()
    for (const channel of channels.keys()) await opened.query(`listen ${quoteIdentifier(channel)}`)
    return opened
  }

  function connected(): Promise<pg.Client> {
    client ??= open().catch((error) => {
      client = undefined
      throw relationalUnavailable(error)
    })
    return client
  }

  async function reopen(): Promise<void> {
    for (let tries = 0; channels.size > 0 && !closed.signal.aborted; tries++) {
      try {
        await connected()
        // What happened meanwhile was not heard.
        for (const listeners of channels.values()) for (const listener of listeners) listener('')
        return
      } catch (error) {
        log.warn({ tries, reason: describeError(error) }, 'relational.listener-waiting')
        await sleep(Math.max(50, backoffMs(tries, reconnectBackoff)), closed.signal)
      }
    }
  }

  return {
    async listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>> {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(listener))
      const leave = () => {
        listeners.delete(listener)
        return listeners.size === 0 && channels.delete(channel)
      }
      try {
        await query(`listen ${quoteIdentifier(channel)}`)
      } catch (error) {
        leave()
        throw relationalUnavailable(error)
      }
      return async () => {
        if (leave() && client) await query(`unlisten ${quoteIdentifier(channel)}`).catch(() => {})
      }
    },
    async close(): Promise<void> {
      closed.abort()
      channels.clear()
      const open = await client?.catch(() => undefined)
      await open?.end()
    },
  }
}
