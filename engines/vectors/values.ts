/** How filters read texts: as times, and as words. */

import { createLru } from '#lib/lru.ts'
import { analyzer } from '#stidx/analysis/analyzer.ts'

const isoTime =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:[Zz]|([+-])(\d{2}):?(\d{2}))?)?$/

/**
 * Microseconds since 1970 of an ISO 8601 date or time, as RFC 3339 writes it; without an offset it is of UTC. Undefined for any
 * other text, and for days and hours that do not exist.
 */
export function microsOf(text: string): number | undefined {
  const found = text.length < 10 || text.length > 35 ? null : isoTime.exec(text)
  if (!found) return undefined
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const offsetHours = Number(found[9] ?? 0)
  const offsetMinutes = Number(found[10] ?? 0)
  if (hour > 23 || minute > 59 || second > 59 || offsetHours > 23 || offsetMinutes > 59) return undefined
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined
  const offset = (offsetHours * 60 + offsetMinutes) * (found[8] === '-' ? -1 : 1)
  const seconds = date.getTime() / 1_000 + hour * 3_600 + (minute - offset) * 60 + second
  return seconds * 1_000_000 + Number((found[7] ?? '').slice(0, 6).padEnd(6, '0'))
}

export interface Words {
  /** Each once, whole: `fooBar` and `C++` are one. */
  whole: string[]
  /** Also the parts: `foo`, `bar` and `c`. */
  all: string[]
}

/** Texts of filters come again and again, and so do short values. */
const kept = createLru<string, Words>(1_000)
const keptLengthMax = 200

/** The words of a text, folded as local search folds: in small letters, without marks. */
export function wordsOf(text: string): Words {
  const known = text.length <= keptLengthMax ? kept.get(text) : undefined
  if (known) return known
  const whole: string[] = []
  const all = new Set<string>()
  analyzer.analyzeField(text, 'body', (_term, position, surface) => {
    if (surface.length > (whole[position] ?? '').length) whole[position] = surface
    all.add(surface)
  })
  const found = { whole: [...new Set(whole)], all: [...all] }
  if (text.length <= keptLengthMax) kept.set(text, found)
  return found
}
