/** Splits texts into word pieces as uncased BERT does: the longest known beginning of a word, then the longest known continuations. */

/** Words that are remembered with their pieces; then it begins again. */
const wordsKept = 50_000
const wordLengthMax = 100

/** `pieces` in the order of their rows; `##` begins a continuation. A word with a part that is unknown has no pieces. */
export function createWordPieces(pieces: readonly string[]): (text: string) => number[] {
  const beginnings = new Map<string, number>()
  const continuations = new Map<string, number>()
  for (const [row, piece] of pieces.entries()) {
    if (piece.startsWith('##')) continuations.set(piece.slice(2), row)
    else beginnings.set(piece, row)
  }
  const longest = pieces.reduce((most, piece) => Math.max(most, piece.length), 0)
  const seen = new Map<string, readonly number[]>()

  function split(word: string): number[] {
    const rows: number[] = []
    for (let at = 0; at < word.length; ) {
      const known = at === 0 ? beginnings : continuations
      let end = Math.min(word.length, at + longest)
      let row: number | undefined
      while (end > at) {
        row = known.get(word.slice(at, end))
        if (row !== undefined) break
        end--
      }
      if (row === undefined) return []
      rows.push(row)
      at = end
    }
    return rows
  }
  function remembered(word: string): readonly number[] {
    const known = seen.get(word)
    if (known) return known
    const rows = word.length > wordLengthMax ? [] : split(word)
    if (seen.size >= wordsKept) seen.clear()
    seen.set(word, rows)
    return rows
  }
  return (text) => {
    const rows: number[] = []
    for (const word of plain(text).match(wordOrSign) ?? []) rows.push(...remembered(word))
    return rows
  }
}

const printableAscii = /^[\t\n\r\x20-\x7e]*$/

/** Without control characters and accents, in lower case. */
function plain(text: string): string {
  if (printableAscii.test(text)) return text.toLowerCase()
  const printable = text.replace(/[\p{Cc}\p{Cf}\p{Co}\ufffd]/gu, (sign) => (/\s/.test(sign) ? ' ' : ''))
  return printable
    .normalize('NFD')
    .replace(/\p{Mn}/gu, '')
    .toLowerCase()
}

const ideographs =
  '\\u3400-\\u4DBF\\u4E00-\\u9FFF\\uF900-\\uFAFF\\u{20000}-\\u{2A6DF}\\u{2A700}-\\u{2CEAF}\\u{2F800}-\\u{2FA1F}'
/** Punctuation, as which every sign of ASCII counts, and ideographs are words of their own. */
const signs = `${ideographs}!-\\/:-@\\[-\`\\{-~\\p{P}`
const wordOrSign = new RegExp(`[${signs}]|[^\\s${signs}]+`, 'gu')
