/**
 * Leaves room to others: turns of the event loop in the middle of long work, memory that is given back at once, a lower
 * priority.
 */

import { setPriority } from 'node:os'

const turnMs = 5
const turnBytes = 256 * 1024

let isOpen = false
let beganAt = 0
let spentBytes = 0
const waiting: (() => void)[] = []

/** Undefined while the turn lasts: go on at once. Else resolves with a turn of one's own. `bytes`: the size of the work done. */
export function spendTurn(bytes: number): Promise<void> | undefined {
  if (!isOpen) openTurn()
  spentBytes += bytes
  if (spentBytes < turnBytes && performance.now() - beganAt < turnMs) return undefined
  return new Promise((resolve) => waiting.push(resolve))
}

function openTurn(): void {
  isOpen = true
  beganAt = performance.now()
  spentBytes = 0
  // Behind whatever else has arrived.
  setImmediate(nextTurn)
}

function nextTurn(): void {
  isOpen = false
  const goOn = waiting.shift()
  if (!goOn) return
  openTurn()
  goOn()
}

/**
 * For bytes that nobody looks at any more. The collector counts memory of this kind: megabytes of it for each request
 * make it go through all objects of the thread again and again. Bytes that share their memory with others are left
 * alone, as pieces of Node's pool do.
 */
export function detach(bytes: ArrayBufferView): void {
  if (isWhole(bytes)) bytes.buffer.transfer(0)
}

/** Whether the bytes share their memory with no others: then it can be moved to another thread. */
export function isWhole<T extends ArrayBufferView>(bytes: T): bytes is T & { buffer: ArrayBuffer } {
  const { buffer } = bytes
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength
}

/** On Unix about a third of the share of a busy core that others have. */
const priority = 5

/** Lowers the priority of this process, or of this thread alone, which only Linux can; elsewhere a thread stays as it is. */
export function lowerPriority(who: 'process' | 'thread'): void {
  if (who === 'thread' && process.platform !== 'linux') return
  try {
    setPriority(priority)
  } catch {
    // Not allowed everywhere, and only a courtesy.
  }
}
