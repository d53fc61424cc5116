/** Ids of records: UUIDv7, so that they sort by time. */

import { randomFillSync } from 'node:crypto'

/** One system call serves 512 ids. */
const random = Buffer.alloc(16 * 512)
let used = random.length
/** The id that is being written: dashes stand, times change once a millisecond. */
const text = Buffer.from('00000000-0000-0000-0000-000000000000')
const digits = Buffer.from('0123456789abcdef')
/** Where the two digits of each byte stand. */
const places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]
let writtenMs = -1

/**
 * A new id: RFC 9562, 5.7, without a counter. Written by hand, because each record of the log has one: as text in one
 * piece it costs a quarter of what joined pieces do, which whoever serialises them has to put together again.
 */
export function newEventId(): string {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  const nowMs = Date.now()
  if (nowMs !== writtenMs) writeTime(nowMs)
  write(6, (random[used + 6]! & 0x0f) | 0x70)
  write(7, random[used + 7]!)
  write(8, (random[used + 8]! & 0x3f) | 0x80)
  for (let at = 9; at < 16; at++) write(at, random[used + at]!)
  used += 16
  return text.toString('latin1')
}

function writeTime(nowMs: number): void {
  writtenMs = nowMs
  let rest = nowMs
  for (let at = 5; at >= 0; at--) {
    write(at, rest % 256)
    rest = Math.floor(rest / 256)
  }
}

function write(at: number, byte: number): void {
  const place = places[at]!
  text[place] = digits[byte >>> 4]!
  text[place + 1] = digits[byte & 15]!
}
