/**
 * Names the owner of a partition in its commits, 32 bits: the upper half its process, the lower half the member. By the
 * processes that the group still has, a successor tells an owner that died from one that only lost the partition.
 */

import { randomInt } from 'node:crypto'
import type { Groups } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { murmur2 } from '#lib/murmur2.ts'

/** Where nobody has the partition, or its owner has left by itself. */
export const nobody = 0

const half = 2 ** 16
const askMsMax = 5_000

/** A name for a new member of this process. */
export function nameOwner(clientId: string): number {
  return halfOf(clientId) * half + randomInt(1, half)
}

/**
 * True when the group has no member of that owner's process any more. In doubt false: an answer that does not name this
 * process, which is a member, says nothing about others.
 */
export async function hasDied(
  owner: number,
  group: { eventLog: Groups; name: string; topic: string },
): Promise<boolean> {
  const { eventLog, name, topic } = group
  try {
    const late = () => new Error('no answer in time')
    const { clientIds } = await withTimeout(eventLog.groupState(name, topic), askMsMax, late)
    const present = clientIds.map(halfOf)
    return present.includes(halfOf(eventLog.clientId)) && !present.includes(Math.floor(owner / half))
  } catch {
    return false
  }
}

function halfOf(clientId: string): number {
  return (murmur2(Buffer.from(clientId)) >>> 0) % half
}
