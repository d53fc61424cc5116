/** Parses YAML into values and the line and path of each, so that every fault can name its place. */

import {
  type Alias,
  type Document,
  isAlias,
  isScalar,
  isSeq,
  isMap as isYamlMap,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  type ParsedNode,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml'
import { pointerPart } from '#lib/path-part.ts'

export interface Place {
  line: number
  /** Dotted, for example `targets.audit.url`; empty for the text as a whole. */
  path: string
}

export interface Fault extends Place {
  message: string
}

export interface Parsed {
  /** Undefined when there is nothing that could be checked further. */
  value: unknown
  /** Where each value is, by its JSON Pointer. */
  places: ReadonlyMap<string, Place>
  faults: Fault[]
}

/** Aliases are followed, so that a short text can become many values: this is the limit. */
const valuesMax = 50_000
const aliasesMax = 1_000
const depthMax = 16
/** Parsing takes microseconds a token. */
const tokensMax = 100_000
const nameShownMax = 60
/** Longer than any name that is known anywhere: each place is found by all the names above it. */
const nameLengthMax = 256

export function parseYaml(text: string): Parsed {
  const faults: Fault[] = []
  const places = new Map<string, Place>()
  const value = readValues(text, places, faults)
  return { value, places, faults }
}

function readValues(text: string, places: Map<string, Place>, faults: Fault[]): unknown {
  const tooMuch = tooMuchAt(text)
  if (tooMuch !== null) {
    faults.push({ line: tooMuch, path: '', message: tooLarge })
    return undefined
  }
  const lines = new LineCounter()
  // Comparing each key with all others takes hours for a long map: `entriesOf` finds repeated keys.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'error',
    uniqueKeys: false,
  })
  for (const error of [...document.errors, ...document.warnings]) {
    faults.push({ line: lines.linePos(error.pos[0]).line, path: '', message: explain(error) })
  }
  if (faults.length > 0) return undefined
  const anchored = anchorsOf(document)
  let left = valuesMax
  const open = new Set<unknown>()

  function convert(given: unknown, pointer: string, place: Place): unknown {
    places.set(pointer, place)
    const node = isAlias(given) ? anchored.get(given) : given
    if (node === undefined) faults.push({ ...place, message: explanations.BAD_ALIAS as string })
    if (left-- <= 0 || open.size >= depthMax || open.has(node)) throw new TooMuch(place)
    if (isScalar(node)) return node.value
    if (!isSeq(node) && !isYamlMap(node)) return null
    open.add(node)
    try {
      if (isYamlMap(node)) return entriesOf(node.items, pointer, place)
      return node.items.map((item, n) =>
        convert(item, `${pointer}/${n}`, { line: lineOf(item, place.line), path: `${place.path}[${n}]` }),
      )
    } finally {
      open.delete(node)
    }
  }
  function entriesOf(pairs: Pair[], pointer: string, above: Place): object {
    const entries = new Map<string, unknown>()
    for (const { key, value } of pairs) {
      const name = isScalar(key) ? String(key.value) : '(not a name)'
      const place = { line: lineOf(key, above.line), path: joined(above.path, name) }
      if (entries.has(name))
        faults.push({ ...place, path: '', message: explanations.DUPLICATE_KEY as string })
      if (name.length > nameLengthMax) faults.push({ ...place, message: 'is longer than any name' })
      else entries.set(name, convert(value, pointer + pointerPart(name), place))
    }
    // Own properties, whatever their names are.
    return Object.fromEntries(entries)
  }
  function lineOf(node: unknown, above: number): number {
    const range = (node as ParsedNode | null)?.range
    return range ? lines.linePos(range[0]).line : above
  }

  try {
    return convert(document.contents, '', { line: 1, path: '' })
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error
    faults.push({ ...error.place, message: tooLarge })
    return undefined
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

/** Whether a value of the file is a map. */
export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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
