/** Parses YAML into values that know their line and path, so that every fault can name its place. */

import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type ParsedNode,
  parseDocument,
  type YAMLError,
} from 'yaml'

export interface Fault {
  line: number
  /** Dotted, for example `targets.audit.url`; empty for the text as a whole. */
  path: string
  message: string
}

export interface Place {
  line: number
  path: string
}

export type Located =
  | { kind: 'scalar'; place: Place; value: unknown }
  | { kind: 'list'; place: Place; items: Located[] }
  | { kind: 'map'; place: Place; entries: { name: string; place: Place; value: Located }[] }

/** Aliases are followed, so that a short text can become many values: this is the limit. */
const valuesMax = 50_000
/** Finding an anchor means looking through the text. */
const aliasesMax = 1_000
const depthMax = 16
const nameShownMax = 60

/** The value of the text, or null when there is none that could be checked further; faults go into `faults`. */
export function parseLocated(text: string, faults: Fault[]): Located | null {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' })
  for (const error of [...document.errors, ...document.warnings]) {
    faults.push({ line: lines.linePos(error.pos[0]).line, path: '', message: explain(error) })
  }
  if (faults.length > 0) return null
  let left = valuesMax
  let aliasesLeft = aliasesMax
  const open = new Set<unknown>()

  function convert(given: unknown, path: string, above: number): Located {
    const line = lineOf(given, above)
    const place = { line, path }
    if (isAlias(given) && aliasesLeft-- <= 0) throw new TooMuch(place)
    const node = isAlias(given) ? given.resolve(document) : given
    if (node === undefined) faults.push({ ...place, message: explanations.BAD_ALIAS as string })
    if (left-- <= 0 || open.size >= depthMax || open.has(node)) throw new TooMuch(place)
    if (isScalar(node)) return { kind: 'scalar', place, value: node.value }
    if (!isSeq(node) && !isMap(node)) return { kind: 'scalar', place, value: null }
    open.add(node)
    try {
      return isSeq(node)
        ? { kind: 'list', place, items: node.items.map((item, n) => convert(item, `${path}[${n}]`, line)) }
        : { kind: 'map', place, entries: node.items.map((pair) => entryOf(pair, path, line)) }
    } finally {
      open.delete(node)
    }
  }
  function entryOf(pair: unknown, path: string, above: number) {
    if (!isPair(pair)) throw new TooMuch({ line: above, path })
    const key = isScalar(pair.key) ? pair.key.value : pair.key
    const name = typeof key === 'string' ? key : isScalar(pair.key) ? String(key) : '(not a name)'
    const place = { line: lineOf(pair.key, above), path: joined(path, name) }
    return { name, place, value: convert(pair.value, place.path, place.line) }
  }
  function lineOf(node: unknown, above: number): number {
    const range = (node as ParsedNode | null)?.range
    return range ? lines.linePos(range[0]).line : above
  }

  try {
    return convert(document.contents, '', 1)
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error
    faults.push({ ...error.place, message: 'is too large or too deep: write it out, with fewer aliases' })
    return null
  }
}

class TooMuch extends Error {
  readonly place: Place
  constructor(place: Place) {
    super('too much')
    this.place = place
  }
}

function joined(path: string, name: string): string {
  const shown = name.length > nameShownMax ? `${name.slice(0, nameShownMax)}…` : name
  return path === '' ? shown : `${path}.${shown}`
}

const explanations: Partial<Record<YAMLError['code'], string>> = {
  BAD_ALIAS: 'an alias (*name) names no anchor (&name) above it',
  BAD_DQ_ESCAPE: 'a text in double quotes holds an escape that YAML does not know; use single quotes',
  BAD_INDENT: 'the indentation is wrong: entries of one map begin in one column',
  BAD_SCALAR_START: 'a text that begins with this character must be put in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a colon and a value follow where a plain text is expected; put the text in quotes',
  DUPLICATE_KEY: 'a key appears twice in one map; remove one',
  MISSING_CHAR: 'a closing quote, a bracket, a comma or a space after a colon is missing',
  MULTILINE_IMPLICIT_KEY: 'a colon is missing after the key, or a text must be put in quotes',
  MULTIPLE_DOCS: 'a second document begins (---); keep one',
  NON_STRING_KEY: 'a key is not a text',
  TAB_AS_INDENT: 'a tab is used to indent; use spaces',
  TAG_RESOLVE_FAILED: 'a tag (!name) is not known; remove it',
  UNEXPECTED_TOKEN: 'there is something that YAML does not expect here; check quotes, colons and indentation',
}

/** In our own words: the parser's quote the text, which may hold a secret. */
function explain(error: YAMLError): string {
  return (
    explanations[error.code] ?? `this is not valid YAML (${error.code.toLowerCase().replaceAll('_', ' ')})`
  )
}
