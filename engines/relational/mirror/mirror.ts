/** What both drivers of the mirror share: everything above a relational engine that is opened at its first use. */

import type { Logger } from 'pino'
import { AppError } from '#lib/errors.ts'
import { type Relational, sqlState } from '../port.ts'
import { relationalUnavailable } from '../sql-faults.ts'
import { applyOperations, readPositions } from './apply.ts'
import {
  adoptGeneration,
  createGeneration,
  dropGeneration,
  promoteGeneration,
  readLiveGeneration,
} from './generations.ts'
import type { Mirror } from './port.ts'
import { prepareMirror } from './prepare.ts'

interface MirrorDriver {
  driver: Mirror['driver']
  log: Logger
  /** Opens the engine; called once, and again after it failed. */
  open(): Promise<OpenedMirror>
  /** What is there before `open`; absent where the engine runs anyway. */
  resting?(): 'closed' | 'absent'
  /** Called once the tables are ready. */
  prepared?(): void
  close(): Promise<void>
}

interface OpenedMirror {
  write: Relational
  read: Mirror['read']
  /** Builds the vector index of a filled generation. */
  finishGeneration(generation: number): Promise<void>
}

export function createMirror(parts: MirrorDriver): Mirror {
  let opening: Promise<OpenedMirror> | undefined
  let ready: Promise<OpenedMirror> | undefined
  let closing: Promise<void> | undefined

  async function prepareOpened(): Promise<OpenedMirror> {
    opening ??= parts.open().catch((error: unknown) => {
      opening = undefined
      throw error
    })
    const opened = await opening
    await prepareMirror(opened.write, parts.log)
    parts.prepared?.()
    return opened
  }
  function engine(): Promise<OpenedMirror> {
    if (closing) return Promise.reject(new AppError('shutting_down', 'The relational mirror is closed.'))
    ready ??= prepareOpened().catch((error: unknown) => {
      ready = undefined
      throw error
    })
    return ready
  }
  const write = writerOf(parts.driver, async () => (await engine()).write)
  return {
    driver: parts.driver,
    write,
    state: () => (ready || !parts.resting ? 'open' : parts.resting()),
    async prepare() {
      await engine()
    },
    async read(text, params, options) {
      return (await engine()).read(text, params, options)
    },
    apply: (target, operations, positions) =>
      refusing(async () => applyOperations((await engine()).write, target, operations, positions)),
    positions: async (target) => readPositions((await engine()).write, target),
    liveGeneration: () => readLiveGeneration(write),
    adoptGeneration: (generation) => adoptGeneration(write, generation),
    createGeneration: async (generation) => createGeneration((await engine()).write, generation),
    finishGeneration: async (generation) => (await engine()).finishGeneration(generation),
    promoteGeneration: async (generation) => promoteGeneration((await engine()).write, generation),
    dropGeneration: async (generation) => dropGeneration((await engine()).write, generation),
    ping: (timeoutMs) => write.ping(timeoutMs),
    close() {
      closing ??= parts.close()
      return closing
    },
  }
}

/** An engine that can be passed on at once and is opened when it is used. */
function writerOf(driver: Mirror['driver'], engine: () => Promise<Relational>): Relational {
  return {
    driver,
    query: async (text, params) => (await engine()).query(text, params),
    transaction: async (work) => (await engine()).transaction(work),
    copy: async (table, columns, rows) => (await engine()).copy(table, columns, rows),
    listen: async (channel, listener) => (await engine()).listen(channel, listener),
    ping: async (timeoutMs) => (await engine()).ping(timeoutMs),
    async close() {},
  }
}

/** Data that no table takes, a row that is too large, a rule of the tables: the same rows can never be stored. */
const refusedStates = /^(22|23|54)/

/**
 * Every other fault of a statement is the engine's own, however it came about: waiting helps, giving rows up does
 * not.
 */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const state = sqlState(error)
    if (state === undefined) throw error
    if (!refusedStates.test(state)) throw relationalUnavailable(error)
    throw new AppError('validation_failed', `the relational engine refuses the row (SQLSTATE ${state})`, {
      cause: error,
    })
  }
}
