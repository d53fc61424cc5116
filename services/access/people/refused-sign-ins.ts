/**
 * The audit of what is refused: one line a minute with a count for an account, or for an address, that signs in, and for
 * whoever asks for what the role does not allow.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { type AdminAction, writeAdminAction } from '../admin-audit/admin-audit.ts'

interface RefusedSignIn {
  /** Uid of the account; null where there is none of this name. Whatever was typed as a name is not kept. */
  uid: string | null
  address: string
  /** Error code. */
  reason: string
  requestId: string
}

type Refused = Omit<AdminAction, 'outcome' | 'count'>

/** `note`: what is counted together has one `key`. */
export interface Refusals<A extends unknown[] = [key: string, refused: Refused]> extends Closeable {
  note(...given: A): void
  /** Writes due lines. */
  flush(): Promise<void>
}
export type RefusedSignIns = Refusals<[RefusedSignIn]>

interface Counted {
  refused: Refused
  count: number
  /** The last line of it was written then. */
  writtenAtMs: number
}

const perMs = 60_000
const lookEveryMs = 1_000
/** Beyond this many keys a minute further ones are counted together. */
const keysMax = 1_000
const linesOfOneWrite = 50

interface RefusalsParts {
  relational: Relational
  log: Logger
  what: string
  /** The target of those that are counted together beyond the bound. */
  others: string
  /** Log name of lines that could not be written before the close. */
  lost: string
}

export function openRefusals(
  { relational, log, what, others, lost }: RefusalsParts,
  now: () => number = () => performance.now(),
): Refusals {
  const counted = new Map<string, Counted>()

  function note(key: string, refused: Refused): void {
    const full = !counted.has(key) && counted.size >= keysMax
    const at = full ? others : key
    const before = counted.get(at)
    counted.set(at, {
      refused: full ? { ...refused, target: others } : refused,
      count: (before?.count ?? 0) + 1,
      writtenAtMs: before?.writtenAtMs ?? -perMs,
    })
  }

  /** `all`: also those whose minute is not over. */
  async function write(all: boolean): Promise<void> {
    const nowMs = now()
    const due: [string, Counted][] = []
    for (const [key, one] of counted) {
      if (!all && nowMs - one.writtenAtMs < perMs) continue
      if (one.count === 0) counted.delete(key)
      else if (due.length < linesOfOneWrite) due.push([key, one])
    }
    if (due.length === 0) return
    await relational.transaction(async (tx) => {
      for (const [, { refused, count }] of due)
        await writeAdminAction(tx, { ...refused, outcome: 'refused', count })
    })
    for (const [key, { count }] of due) {
      // Refusals meanwhile belong to the next line.
      const one = counted.get(key)!
      counted.set(key, { ...one, count: one.count - count, writtenAtMs: nowMs })
    }
  }

  /** One at a time: two would write the same. */
  let last: Promise<unknown> = Promise.resolve()
  async function inTurn(all: boolean): Promise<void> {
    const before = last
    const writing = before.then(() => write(all))
    last = writing.catch(() => {})
    return writing
  }

  const repeating = startRepeating({ what, everyMs: lookEveryMs, firstAfterMs: lookEveryMs, log }, () =>
    inTurn(false),
  )
  return {
    note,
    async flush() {
      await inTurn(false)
    },
    async close() {
      await repeating.close()
      try {
        await last
        joinBeyond(counted, linesOfOneWrite, others)
        await inTurn(true)
      } catch (error) {
        log.warn({ reason: describeError(error) }, lost)
      }
    },
  }
}

/** There is no time for more lines when the process stops: the rest becomes one. */
function joinBeyond(counted: Map<string, Counted>, linesMax: number, others: string): void {
  const open = [...counted].filter(([, { count }]) => count > 0)
  if (open.length <= linesMax) return
  const rest = open.slice(linesMax - 1)
  for (const [key] of rest) counted.delete(key)
  const count = rest.reduce((sum, [, one]) => sum + one.count, counted.get(others)?.count ?? 0)
  const { refused, writtenAtMs } = rest[0]![1]
  const unnamed = { ...refused, actor: { ...refused.actor, id: 'unknown' }, target: others }
  counted.set(others, { refused: unnamed, count, writtenAtMs })
}

export function openRefusedSignIns(
  parts: { relational: Relational; log: Logger },
  now?: () => number,
): RefusedSignIns {
  const [what, others] = ['audit of refused sign-ins', 'other addresses']
  const refusals = openRefusals({ ...parts, what, others, lost: 'people.refusals-not-written' }, now)
  return {
    ...refusals,
    note({ uid, address, reason, requestId }) {
      const actor = { kind: 'person', id: uid ?? 'unknown' } as const
      const target = clientNetwork(address)
      refusals.note(uid ?? target, { actor, action: 'person.sign_in', target, reason, requestId })
    },
  }
}
