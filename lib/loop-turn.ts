/**
 * Lets the event loop turn in the middle of long work: whoever decodes or writes much asks behind each piece, and goes on
 * when its turn comes again. One turn is for all of them together, since the loop is one.
 */

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
