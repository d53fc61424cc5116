/** Removes the light affixes of a folded Arabic word (light-10, Larkey, Ballesteros and Connell, 2007). */

const prefixes = ['ال', 'وال', 'بال', 'كال', 'فال', 'لل', 'و']
const suffixes = ['ها', 'ان', 'ات', 'ون', 'ين', 'يه', 'ه', 'ي']

export function isArabic(code: number): boolean {
  return code >= 0x620 && code <= 0x6ff
}

/** At most one prefix, then each suffix once, as long as two letters are left (three after the lone waw). */
export function arabicStem(word: string): string {
  let stem = word
  for (const prefix of prefixes) {
    if (stem.startsWith(prefix) && stem.length >= Math.max(prefix.length + 2, 4)) {
      stem = stem.slice(prefix.length)
      break
    }
  }
  for (const suffix of suffixes) {
    if (stem.endsWith(suffix) && stem.length >= suffix.length + 2) stem = stem.slice(0, -suffix.length)
  }
  return stem
}
