/**
 * Finds the agents that a message names. One pass, forward only: messages come from anyone, and no input may take more
 * than its length.
 */

export interface Mention {
  /** The codename; or the text as written, when no agent has this name. */
  name: string
  /** Written with `@`. */
  at: boolean
}

/** What may be the name of an agent; `@` in front of anything else is no mention. */
const nameShape = /^[A-Za-z][A-Za-z0-9_-]{1,31}$/

/**
 * `@name` in any case, and codenames in capitals, as whole words; not in code, quoted lines, addresses and identifiers
 * (WHALE_2, WHALE.ts, src/WHALE, $PULSE). Each name once with `@` and once without, in the order of the text. A name
 * that is none of `names` (codenames) comes only with `@`.
 */
export function findMentions(text: string, names: Iterable<string>): Mention[] {
  const known = new Set(names)
  const found = new Map<string, Mention>()
  for (const paragraph of plainParagraphs(text)) {
    for (const { word, at } of wordsOf(paragraph)) {
      const name = at && known.has(word.toUpperCase()) ? word.toUpperCase() : word
      const wanted = at ? nameShape.test(word) : known.has(word)
      if (!wanted) continue
      const key = `${at ? '@' : ''}${name}`
      if (!found.has(key)) found.set(key, { name, at })
    }
  }
  return [...found.values()]
}

/** Spaces, and the mark of a list item. */
const lineStart = /^[^!-\uffff]*(?:(?:\d+[.)]|[-*+]) [^!-\uffff]*)?/
/** Three back-ticks with more of them in the same line are a code span. */
const fenceStart = /^(?:`{3,}(?=[^`]*$)|~{3,})/
const fenceEnd = /^(`+|~+)[^!-\uffff]*$/

/** Paragraphs, without quoted lines and fenced code. A fence that is never closed reaches to the end. */
function* plainParagraphs(text: string): Generator<string> {
  let fence = ''
  let lines: string[] = []
  for (const line of text.split('\n')) {
    const content = line.replace(lineStart, '')
    const opened = fence === '' ? (fenceStart.exec(content)?.[0] ?? '') : ''
    if (fence === '' && opened === '' && content !== '' && !content.startsWith('>')) {
      lines.push(line)
      continue
    }
    if (lines.length > 0) yield lines.join('\n')
    lines = []
    if (fence === '') fence = opened
    else if (fenceEnd.exec(content)?.[1]?.startsWith(fence)) fence = ''
  }
  if (lines.length > 0) yield lines.join('\n')
}

/** Scripts without spaces between words: a name may stand in the middle. */
const unspaced = ['Han', 'Hiragana', 'Katakana', 'Hangul', 'Bopomofo', 'Thai', 'Lao', 'Khmer', 'Myanmar']
const unspacedLetters = unspaced.map((script) => String.raw`\p{Script=${script}}`).join('')
/** A character of a word. */
const letter = String.raw`[[\p{L}\p{N}\p{M}_]--[${unspacedLetters}\u30fc]]`
/** Back-ticks, the target of a link up to its parenthesis or a space, or a word. */
const tokens = new RegExp(String.raw`${'`'}+|\]\([^\)\u0000-\u0020]*\)?|${letter}+`, 'vg')
/** Whether these are next to a name, which is then a part of something longer: a path, a variable, a tag. */
const joinedBehind = new RegExp(String.raw`[\/\\$%=]|[.\-]${letter}|::`, 'vy')
const joinedBefore = String.raw`[\/\\$#%=@]|\$\{|::`
const joinedBeforeBare = new RegExp(String.raw`(?<=${joinedBefore}|${letter}[.\-])`, 'vy')
/** Words end where another begins, except in front of an `@`. */
const joinedBeforeAt = new RegExp(`(?<=${joinedBefore}|${letter})`, 'vy')
/** `://`, and visible ASCII except `"`, `<`, `>` and the back-tick; what else is in a URL is percent-encoded. */
const url = /:\/\/[!#-;=?-_a-~]*/y
const atoms = /[A-Za-z0-9._%+-]*/y
const host = new RegExp(String.raw`(?<!\.)@(?=${letter})[A-Za-z0-9._%+\-]*`, 'vy')

/** Each whole word of a paragraph that is no part of code, an address or an identifier; `at`: with `@` in front of it. */
function* wordsOf(text: string): Generator<{ word: string; at: boolean }> {
  const spans = codeSpans(text)
  tokens.lastIndex = 0
  /** Up to here it is known that no e-mail address begins. */
  let noEmailBefore = 0
  for (let found = tokens.exec(text); found !== null; found = tokens.exec(text)) {
    const { 0: word, index: start } = found
    const end = start + word.length
    if (word.startsWith('`')) tokens.lastIndex = spans.get(start) ?? end
    if (word.startsWith('`') || word.startsWith('](')) continue
    if (start >= noEmailBefore) {
      noEmailBefore = endOf(atoms, text, start) ?? start
      const emailEnd = endOf(host, text, noEmailBefore)
      if (emailEnd !== null) {
        noEmailBefore = emailEnd
        tokens.lastIndex = emailEnd
        continue
      }
    }
    const urlEnd = endOf(url, text, end)
    if (urlEnd !== null) {
      tokens.lastIndex = urlEnd
      continue
    }
    const at = /[@＠]/.test(text.charAt(start - 1))
    const isPart = at
      ? endOf(joinedBeforeAt, text, start - 1) !== null
      : endOf(joinedBeforeBare, text, start) !== null
    if (!isPart && endOf(joinedBehind, text, end) === null) yield { word, at }
  }
}

/** The end of what the pattern, which is sticky, matches at this place; null where it does not. */
function endOf(pattern: RegExp, text: string, from: number): number | null {
  pattern.lastIndex = from
  return pattern.test(text) ? pattern.lastIndex : null
}

/** Where code spans begin, and where each ends. A span ends with as many back-ticks as it began with. */
function codeSpans(text: string): Map<number, number> {
  const runs = [...text.matchAll(/`+/g)].map(({ 0: { length }, index: start }) => ({
    start,
    length,
    next: -1,
  }))
  // From the end, so that each run knows the next of its length without a search.
  const lastOfLength = new Map<number, number>()
  for (let n = runs.length - 1; n >= 0; n--) {
    const run = runs[n]!
    run.next = lastOfLength.get(run.length) ?? -1
    lastOfLength.set(run.length, n)
  }
  const spans = new Map<number, number>()
  for (let n = 0; n < runs.length; n++) {
    const { start, length, next } = runs[n]!
    // A run that nothing closes is text, in its whole length.
    spans.set(start, next < 0 ? start + length : runs[next]!.start + length)
    if (next >= 0) n = next
  }
  return spans
}
