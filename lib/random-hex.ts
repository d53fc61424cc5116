/** Random bytes as hex, from a stock: one system call serves some hundred ids. */

import { randomFillSync } from 'node:crypto'

const stock = Buffer.alloc(12_288)
let used = stock.length

/** `bytes` (at most 12,288) of the system's randomness as twice as many hex digits. */
export function randomHex(bytes: number): string {
  if (used + bytes > stock.length) {
    randomFillSync(stock)
    used = 0
  }
  used += bytes
  return stock.toString('hex', used - bytes, used)
}
