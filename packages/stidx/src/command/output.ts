/** Prints to the standard streams at once and whole, without Node's streams, whose set-up takes long. */

import { writeSync } from 'node:fs'

/** Standard output (1) or standard error (2). A reader that went away is no fault of ours. */
export function print(descriptor: 1 | 2, text: string): void {
  const bytes = Buffer.from(text, 'utf8')
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(descriptor, bytes, done)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      if (code === 'EPIPE') return
      if (code !== 'EAGAIN') throw error
      // A pipe that is full and does not block: wait for its reader.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
    }
  }
}

/** Control characters and those that turn the direction of text do not reach a terminal. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu, ' ')
}
