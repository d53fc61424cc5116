/** Schemas of what the YAML files of operators have in common: texts, choices, addresses, headers, and the file as a whole. */

import { Type } from 'typebox'
import { isLinkLocal } from '#lib/hosts.ts'
import type { CheckContext, FileSchemaOptions } from './check.ts'

type TextOptions = FileSchemaOptions & { maxLength?: number }

/** A text that is not empty. */
export function text(options: TextOptions = {}) {
  return Type.Unsafe<string>({ type: 'string', check: () => {}, ...options })
}

export function choice<T extends string>(
  choices: readonly T[],
  options: FileSchemaOptions & { default?: T } = {},
) {
  return Type.Unsafe<T>({ enum: choices, ...options })
}

interface EntriesAsked extends Pick<FileSchemaOptions, 'check'> {
  /** The one key of the file, and what its entries are: `targets`. */
  key: string
  /** What the keys of the entries are: `names`. */
  keys: string
  max: number
}

/** A file that is a map with one key, under which entries have names. */
export function entriesFile(entry: object, { key, keys, max, check }: EntriesAsked) {
  const entries = {
    type: 'object',
    nullable: true,
    fault: `must be a map of ${keys} to ${key}`,
    missing: `the key ${key} is missing; write \`${key}: {}\` for none`,
    maxProperties: max,
    tooMany: `there may be ${max} ${key} at most`,
    additionalProperties: entry,
    check,
  }
  return Type.Unsafe<Record<string, Record<string, unknown> | null>>({
    type: 'object',
    fault: `the file must be a map with the one key ${key}`,
    properties: { [key]: entries },
    required: [key],
    additionalProperties: false,
  })
}

/** The fault of an entry that is not a map. */
export const entryFault = 'must be a map with at least a url'

interface UrlAsked {
  /** In faults. */
  example: string
  /** The fault of a scheme that is neither http nor https. */
  schemes: string
  /** What else may be wrong with it in this entry; null for nothing. */
  problemOf(url: URL, entry: CheckContext['parent']): string | null
}

/**
 * The address of an entry, without user, password or a link-local host. Faults never quote it: variables may have been
 * filled in.
 */
export function url({ example, schemes, problemOf }: UrlAsked) {
  return text({
    variables: true,
    missing: `has no url; add url: ${example}`,
    check(given: string, { parent, fault }) {
      if (!URL.canParse(given)) return fault(`is not a URL: write ${example}`)
      const { protocol, username, password, hostname } = new URL(given)
      if (protocol !== 'https:' && protocol !== 'http:') return fault(schemes)
      if (username !== '' || password !== '') {
        return fault('holds a user or password: put them into an Authorization header')
      }
      if (isLinkLocal(hostname.replace(/^\[|\]$/g, ''))) {
        return fault('is a link-local address, where machines keep their credentials')
      }
      const problem = problemOf(new URL(given), parent)
      if (problem !== null) fault(problem)
    },
  })
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** What one line of a header can carry; no spaces around it. */
const headerValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
const headersMax = 64
/** What a request with a body and its connection need; in lower case. */
export const connectionHeaders: readonly string[] = [
  'content-type',
  'content-length',
  'content-encoding',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]
const valueLengthMax = 8_192
/** Headers that carry a credential: it is a secret, also where it is written into the file itself. */
const credentialName = /auth|cookie|credential|key|password|secret|token/

/** A map of header names to texts. `reserved`: names in lower case that only the platform may set. */
export function headers(reserved: ReadonlySet<string>) {
  const value = text({
    variables: true,
    check(given: string, { fault }) {
      if (given.length <= valueLengthMax && headerValue.test(given)) return
      fault(
        `has a value that a header cannot carry: 1 to ${valueLengthMax} printable ASCII characters on one line, without spaces around them (is there a line break at the end of a variable?)`,
      )
    },
  })
  return Type.Unsafe<Record<string, string>>({
    type: 'object',
    fault: 'must be a map of header names to texts',
    maxProperties: headersMax,
    tooMany: `is one of more than ${headersMax} headers`,
    additionalProperties: value,
    default: {},
    check(given: Record<string, unknown>, { fault, secret }: CheckContext) {
      const seen = new Set<string>()
      for (const [name, carried] of Object.entries(given)) {
        const lower = name.toLowerCase()
        if (!headerName.test(name)) fault('is not a name that a header can have', name)
        else if (reserved.has(lower)) fault('is set by the platform; remove it', name)
        else if (seen.has(lower)) fault('appears twice, in another case; remove one', name)
        seen.add(lower)
        if (typeof carried !== 'string' || !credentialName.test(lower)) continue
        secret(carried)
        // The text behind its scheme: `Bearer …`.
        secret(carried.split(' ').at(-1) as string)
      }
    },
  })
}
