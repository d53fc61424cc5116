/**
 * Makes administrative calls: each is repeated until it succeeds or its time is over, with a fresh client after a
 * failure.
 */

import type { Admin, Kafka } from 'kafkajs'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { logUnavailable } from './faults.ts'

export interface AdminCalls extends Closeable {
  /**
   * Runs `work`. An AppError that it throws is final; anything else is tried again until `timeoutMs` (default 10 s)
   * are over, then AppError `log_unavailable`.
   */
  ask<T>(work: (admin: Admin) => Promise<T>, timeoutMs?: number): Promise<T>
}

interface Client {
  admin: Admin
  connected: Promise<void>
  calls: number
  retired: boolean
  /** Runs while it has no call. */
  idle?: NodeJS.Timeout
}

const callTimeoutMs = deadlines.engine.logAdminMs
const pauseMs = 100
/** A client without calls is closed after this time: kafkajs wakes the process a thousand times a second for each connection. */
const idleMs = 2_000

/**
 * A client is thrown away after a failure: kafkajs refreshes the metadata of every topic that a client ever asked for,
 * so that one deleted topic would fail all later calls.
 */
export function createAdminCalls(kafka: Kafka): AdminCalls {
  const open = new Set<Client>()
  let current: Client | undefined
  let closed = false

  function take(): Client {
    clearTimeout(current?.idle)
    if (current) return current
    const admin = kafka.admin()
    current = { admin, connected: connect(admin), calls: 0, retired: false }
    current.connected.catch(() => {})
    open.add(current)
    return current
  }
  function retire(client: Client): void {
    if (current === client) current = undefined
    client.retired = true
    clearTimeout(client.idle)
    if (client.calls === 0) disconnect(client)
  }
  function disconnect(client: Client): void {
    if (!open.delete(client)) return
    client.connected.then(() => client.admin.disconnect()).catch(() => {})
  }
  async function tryOnce<T>(work: (admin: Admin) => Promise<T>, ms: number): Promise<T> {
    const client = take()
    client.calls++
    try {
      return await withTimeout(
        client.connected.then(() => work(client.admin)),
        ms,
        () => new Error('no answer in time'),
      )
    } catch (error) {
      if (!(error instanceof AppError)) retire(client)
      throw error
    } finally {
      client.calls--
      if (client.calls === 0) {
        if (client.retired) disconnect(client)
        else client.idle = setTimeout(() => retire(client), idleMs).unref()
      }
    }
  }
  return {
    async ask(work, timeoutMs = callTimeoutMs) {
      const end = performance.now() + timeoutMs
      for (;;) {
        if (closed) throw logUnavailable()
        try {
          return await tryOnce(work, Math.max(1, end - performance.now()))
        } catch (error) {
          if (error instanceof AppError) throw error
          if (performance.now() + pauseMs >= end) throw logUnavailable(error)
          await sleep(pauseMs)
        }
      }
    },
    async close() {
      closed = true
      for (const client of [...open]) retire(client)
    },
  }
}

/** Calls about groups know no broker before some metadata is loaded. */
async function connect(admin: Admin): Promise<void> {
  await admin.connect()
  await admin.describeCluster()
}
