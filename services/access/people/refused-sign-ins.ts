/** The audit of sign-ins that were refused: one line a minute for an account, or for an address, with a count. */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { writeAdminAction } from '../admin-audit/admin-audit.ts'

interface RefusedSignIn {
  /** Uid of the account; null where there is none of this name. Whatever was typed as a name is not kept. */
  uid: string | null
  address: string
  /** Error code. */
  reason: string
  requestId: string
}

export interface RefusedSignIns extends Closeable {
  note(refused: RefusedSignIn): void
  /** Writes due lines. */
  flush(): Promise<void>
}

interface Counted extends RefusedSignIn {
  count: number
  /** The last line of it was written then. */
  writtenAtMs: number
}

const perMs = 60_000
const lookEveryMs = 1_000
/** Beyond this many accounts and addresses a minute further ones are counted together. */
const keysMax = 1_000
const linesOfOneWrite = 50
const others = 'other addresses'

export function openRefusedSignIns(
  { relational, log }: { relational: Relational; log: Logger },
  now: () => number = () => performance.now(),
): RefusedSignIns {
  const counted = new Map<string, Counted>()

  function note(refused: RefusedSignIn): void {
    const key = refused.uid ?? clientNetwork(refused.address)
    const full = !counted.has(key) && counted.size >= keysMax
    const at = full ? others : key
    const before = counted.get(at)
    const count = (before?.count ?? 0) + 1
    const address = full ? others : clientNetwork(refused.address)
    counted.set(at, { ...refused, address, count, writtenAtMs: before?.writtenAtMs ?? -perMs })
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
      for (const [, one] of due) await writeAdminAction(tx, lineOf(one))
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

  const repeating = startRepeating(
    { what: 'audit of refused sign-ins', everyMs: lookEveryMs, firstAfterMs: lookEveryMs, log },
    () => inTurn(false),
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
        joinBeyond(counted, linesOfOneWrite)
        await inTurn(true)
      } catch (error) {
        log.warn({ reason: describeError(error) }, 'people.refusals-not-written')
      }
    },
  }
}

/** There is no time for more lines when the process stops: the rest becomes one. */
function joinBeyond(counted: Map<string, Counted>, linesMax: number): void {
  const open = [...counted].filter(([, { count }]) => count > 0)
  if (open.length <= linesMax) return
  const rest = open.slice(linesMax - 1)
  for (const [key] of rest) counted.delete(key)
  const count = rest.reduce((sum, [, one]) => sum + one.count, counted.get(others)?.count ?? 0)
  counted.set(others, { ...rest[0]![1], uid: null, address: others, count })
}

function lineOf({ uid, address, reason, requestId, count }: Counted) {
  return {
    actor: { kind: 'person' as const, id: uid ?? 'unknown' },
    action: 'person.sign_in',
    target: address,
    reason,
    requestId,
    outcome: 'refused' as const,
    count,
  }
}
