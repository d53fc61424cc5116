/**
 * The listeners of NOTIFY, by channel: the database listens to a channel as long as somebody does; a server by one connection
 * for all channels, which is opened again whenever it breaks.
 */

import type pg from 'pg'
import type { Logger } from 'pino'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { relationalUnavailable } from './sql-faults.ts'
import { quoteIdentifier } from './statements.ts'

export function createChannels(database: {
  /** Rejects where the database cannot listen: then nobody does. */
  listen(channel: string): Promise<unknown>
  unlisten(channel: string): Promise<unknown>
}) {
  const channels = new Map<string, Set<(payload: string) => void>>()
  return {
    names: () => [...channels.keys()],
    deliver(channel: string, payload: string): void {
      for (const listener of channels.get(channel) ?? []) listener(payload)
    },
    async listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>> {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(listener))
      const leave = () => {
        listeners.delete(listener)
        return listeners.size === 0 && channels.delete(channel)
      }
      try {
        await database.listen(channel)
      } catch (error) {
        leave()
        throw error
      }
      return async () => {
        if (leave()) await database.unlisten(channel)
      }
    },
    clear: () => channels.clear(),
  }
}

const reconnectBackoff = { baseMs: 200, maxMs: 5_000 }

export function createListener(createClient: () => pg.Client, log: Logger) {
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
      if (channels.names().length > 0 && !closed.signal.aborted) void reopen()
    })
    opened.on('notification', ({ channel, payload }) => channels.deliver(channel, payload ?? ''))
    await opened.connect()
    for (const channel of channels.names()) await opened.query(`listen ${quoteIdentifier(channel)}`)
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
    for (let tries = 0; channels.names().length > 0 && !closed.signal.aborted; tries++) {
      try {
        await connected()
        // What happened meanwhile was not heard.
        for (const channel of channels.names()) channels.deliver(channel, '')
        return
      } catch (error) {
        log.warn({ tries, reason: describeError(error) }, 'relational.listener-waiting')
        await sleep(Math.max(50, backoffMs(tries, reconnectBackoff)), closed.signal)
      }
    }
  }

  const channels = createChannels({
    listen: (channel) =>
      query(`listen ${quoteIdentifier(channel)}`).catch((error) => {
        throw relationalUnavailable(error)
      }),
    async unlisten(channel) {
      if (client) await query(`unlisten ${quoteIdentifier(channel)}`).catch(() => {})
    },
  })

  return {
    listen: channels.listen,
    async close(): Promise<void> {
      closed.abort()
      channels.clear()
      const open = await client?.catch(() => undefined)
      await open?.end()
    },
  }
}
