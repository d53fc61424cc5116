/** What the reference nodes keep between starts: their port, their token, and which agents they have provisioned. */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeByRename } from '#runtime/start/addresses.ts'

export interface Kept {
  /** Undefined before the first start. */
  port: number | undefined
  /** What callers of the nodes show. */
  token: string
  /** Agent ids: one that was deleted since is not made again. */
  provisioned: string[]
}

const fileName = 'reference-nodes.json'

/** With a new token where there is none. */
export function readKept(home: string): Kept {
  const made: Kept = { port: undefined, token: randomBytes(24).toString('base64url'), provisioned: [] }
  try {
    return { ...made, ...(JSON.parse(readFileSync(join(home, fileName), 'utf8')) as Partial<Kept>) }
  } catch {
    return made
  }
}

export function writeKept(home: string, kept: Kept): void {
  writeByRename(join(home, fileName), kept)
}
