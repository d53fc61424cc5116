/** Parses YAML into values that know their line and path, so that every fault can name its place. */

import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type ParsedNode,
  parseDocument,
  visit,
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
const aliasesMax = 1_000
const depthMax = 16
/** Parsing takes microseconds a token. */
const tokensMax = 100_000
const nameShownMax = 60

export interface Parsed {
  /** Null when there is none that could be checked further. */
  root: Located | null
  faults: Fault[]
}

export function parseText(text: string): Parsed {
  const faults: Fault[] = []
  return { root: parseLocated(text, faults), faults }
}

/** The value of the text, or null when there is none that could be checked further; faults go into `faults`. */
export function parseLocated(text: string, faults: Fault[]): Located | null {
  const tooMuch = tooMuchAt(text)
  if (tooMuch !== null) {
    faults.push({ line: tooMuch, path: '', message: tooLarge })
    return null
  }
  const lines = new LineCounter()
  // Comparing each key with all others takes hours for a long map: `entriesOf` finds what is there twice.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'error',
    uniqueKeys: false,
  })
  for (const error of [...document.errors, ...document.warnings]) {
    faults.push({ line: lines.linePos(error.pos[0]).line, path: '', message: explain(error) })
  }
  if (faults.length > 0) return null
  const anchored = anchorsOf(document)
  let left = valuesMax
  const open = new Set<unknown>()

  function convert(given: unknown, path: string, above: number): Located {
    const line = lineOf(given, above)
    const place = { line, path }
    const node = isAlias(given) ? anchored.get(given) : given
    if (node === undefined) faults.push({ ...place, message: explanations.BAD_ALIAS as string })
    if (left-- <= 0 || open.size >= depthMax || open.has(node)) throw new TooMuch(place)
    if (isScalar(node)) return { kind: 'scalar', place, value: node.value }
    if (!isSeq(node) && !isMap(node)) return { kind: 'scalar', place, value: null }
    open.add(node)
    try {
      return isSeq(node)
        ? { kind: 'list', place, items: node.items.map((item, n) => convert(item, `${path}[${n}]`, line)) }
        : { kind: 'map', place, entries: entriesOf(node.items, path, line) }
    } finally {
      open.delete(node)
    }
  }
  function entriesOf(pairs: unknown[], path: string, line: number) {
    const names = new Set<string>()
    return pairs.map((pair) => {
      const entry = entryOf(pair, path, line)
      if (names.has(entry.name)) {
        faults.push({ line: entry.place.line, path: '', message: explanations.DUPLICATE_KEY as string })
      }
      names.add(entry.name)
      return entry
    })
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
    faults.push({ ...error.place, message: tooLarge })
    return null
  }
}

const tooLarge = 'is too large or too deep: write it out, with fewer aliases'

/** The line at which the text has more tokens, aliases or levels than a file of an operator needs; null when it has not. */
function tooMuchAt(text: string): number | null {
  let [line, tokens, aliases, brackets, indicators] = [1, 0, 0, 0, 0]
  for (const token of new Lexer().lex(text)) {
    const first = token[0]
    if (token === '[' || token === '{') brackets++
    else if (token === ']' || token === '}') brackets = Math.max(0, brackets - 1)
    else if (token === '-' || token === '?') indicators++
    else if (first === '*') aliases++
    const isTooMuch = ++tokens > tokensMax || aliases > aliasesMax || brackets + indicators > depthMax
    if (isTooMuch) return line
    for (let at = token.indexOf('\n'); at !== -1; at = token.indexOf('\n', at + 1)) {
      line++
      indicators = 0
    }
  }
  return null
}

/** What each alias is an alias of: the last node before it with that anchor. The library looks through all for each one. */
function anchorsOf(document: Document.Parsed): Map<Alias, Node> {
  const anchors = new Map<string, Node>()
  const found = new Map<Alias, Node>()
  visit(document, {
    Node(_key, node) {
      if (isAlias(node)) {
        const source = anchors.get(node.source)
        if (source) found.set(node, source)
      } else if (node.anchor) anchors.set(node.anchor, node as Node)
    },
  })
  return found
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
