/** Reads what files of entries have in common: their one key, the fields of an entry, and its address. */

import { isLinkLocal } from '#lib/hosts.ts'
import type { Located, Place } from './located-yaml.ts'
import { type FileReading, unknownKey } from './reading.ts'

type Entries = Extract<Located, { kind: 'map' }>['entries']

interface EntriesAsked {
  /** The one key of the file, and what its entries are: `targets`. */
  key: string
  /** What the keys of the entries are: `names`. */
  keys: string
  max: number
}

/** The entries of the file, at most `max`: none after a fault of its form. */
export function readEntries(root: Located, reading: FileReading, { key, keys, max }: EntriesAsked): Entries {
  if (root.kind !== 'map') {
    reading.fault(root.place, `the file must be a map with the one key ${key}`)
    return []
  }
  for (const { name, place } of root.entries) {
    if (name !== key) reading.fault(place, unknownKey(name, [key]))
  }
  const given = root.entries.find(({ name }) => name === key)
  if (!given) {
    reading.fault(root.place, `the key ${key} is missing; write \`${key}: {}\` for none`)
    return []
  }
  const { value } = given
  if (value.kind !== 'map') {
    const isNone = value.kind === 'scalar' && value.value === null
    if (!isNone) reading.fault(given.place, `must be a map of ${keys} to ${key}`)
    return []
  }
  const { entries } = value
  if (entries.length > max) reading.fault(entries[max]!.place, `there may be ${max} ${key} at most`)
  return entries.slice(0, max)
}

export interface Fields<Name extends string> {
  get(name: Name): Located | undefined
  /** `otherwise` where the field is absent, and after a fault of it. */
  read<T>(name: Name, otherwise: T, reader: (given: Located) => T | null): T
}

/** The fields of one entry; null when it is no map. A field of another name is a fault. */
export function readFields<Name extends string>(
  value: Located,
  reading: FileReading,
  names: readonly Name[],
): Fields<Name> | null {
  if (value.kind !== 'map') {
    reading.fault(value.place, 'must be a map with at least a url')
    return null
  }
  const fields = new Map<string, Located>()
  for (const entry of value.entries) {
    if ((names as readonly string[]).includes(entry.name)) fields.set(entry.name, entry.value)
    else reading.fault(entry.place, unknownKey(entry.name, names))
  }
  return {
    get: (name) => fields.get(name),
    read(name, otherwise, reader) {
      const given = fields.get(name)
      return given === undefined ? otherwise : (reader(given) ?? otherwise)
    },
  }
}

export interface UrlAsked {
  /** In faults. */
  example: string
  /** What is wrong with a scheme that is neither http nor https. */
  schemes: string
  /** What else may be wrong; null for nothing. */
  problemOf(url: URL): string | null
}

/**
 * The address of an entry, without user, password or a link-local host; null after a fault. Faults never quote it:
 * variables may have been filled in.
 */
export function readUrl(
  given: Located | undefined,
  entry: Place,
  reading: FileReading,
  asked: UrlAsked,
): URL | null {
  if (given === undefined) {
    reading.fault(entry, `has no url; add url: ${asked.example}`)
    return null
  }
  const text = reading.text(given)
  if (text === null) return null
  const problem = problemOf(text, asked)
  if (problem !== null) reading.fault(given.place, problem)
  return problem === null ? new URL(text) : null
}

function problemOf(text: string, { example, schemes, problemOf: otherProblemOf }: UrlAsked): string | null {
  if (!URL.canParse(text)) return `is not a URL: write ${example}`
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return schemes
  if (url.username !== '' || url.password !== '') {
    return 'holds a user or password: put them into an Authorization header'
  }
  if (isLinkLocal(url.hostname.replace(/^\[|\]$/g, ''))) {
    return 'is a link-local address, where machines keep their credentials'
  }
  return otherProblemOf(url)
}
