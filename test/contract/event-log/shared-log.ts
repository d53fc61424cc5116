/** Clients of one log that runs in this process: it remains open between tests, until a restart or the end. */

import type { EventLog } from '#engines/event-log/port.ts'

/** `open` starts the log; closing a client of it closes nothing, `restart` ends the log itself. */
export function createSharedLog<L extends EventLog>(open: () => Promise<L>) {
  let shared: Promise<L> | undefined
  function current(): Promise<L> {
    shared ??= open()
    return shared
  }
  return {
    current,
    async client(): Promise<EventLog> {
      return { ...(await current()), close: async () => {} }
    },
    async restart(): Promise<void> {
      const log = await shared
      shared = undefined
      await log?.close()
    },
  }
}
