/** Stems English words in lower-case ASCII letters (M. F. Porter, 1980, with his later changes). */

/** Words of one or two letters stay as they are. No expressions here: compiling them would cost every search a start. */
export function porterStem(word: string): string {
  if (word.length < 3) return word
  let stem = pastAndIng(plural(word))
  const last = stem.length - 1
  if (stem[last] === 'y' && hasVowel(stem, last)) stem = `${stem.slice(0, last)}i`
  stem = replaceSuffix(stem, step2[stem[stem.length - 2]!], 0)
  stem = replaceSuffix(stem, step3[stem[stem.length - 1]!], 0)
  stem = replaceSuffix(stem, step4[stem[stem.length - 2]!], 1)
  return finalLetters(stem)
}

type Suffixes = Readonly<Record<string, readonly string[]>>

/** Keyed by the last letter but one; every suffix is followed by what takes its place. */
const step2: Suffixes = {
  a: ['ational', 'ate', 'tional', 'tion'],
  c: ['enci', 'ence', 'anci', 'ance'],
  e: ['izer', 'ize'],
  l: ['bli', 'ble', 'alli', 'al', 'entli', 'ent', 'eli', 'e', 'ousli', 'ous'],
  o: ['ization', 'ize', 'ation', 'ate', 'ator', 'ate'],
  s: ['alism', 'al', 'iveness', 'ive', 'fulness', 'ful', 'ousness', 'ous'],
  t: ['aliti', 'al', 'iviti', 'ive', 'biliti', 'ble'],
  g: ['logi', 'log'],
}

/** Keyed by the last letter. */
const step3: Suffixes = {
  e: ['icate', 'ic', 'ative', '', 'alize', 'al'],
  i: ['iciti', 'ic'],
  l: ['ical', 'ic', 'ful', ''],
  s: ['ness', ''],
}

/** Keyed by the last letter but one. */
const step4: Suffixes = {
  a: ['al', ''],
  c: ['ance', '', 'ence', ''],
  e: ['er', ''],
  i: ['ic', ''],
  l: ['able', '', 'ible', ''],
  n: ['ant', '', 'ement', '', 'ment', '', 'ent', ''],
  o: ['sion', 's', 'tion', 't', 'ou', ''],
  s: ['ism', ''],
  t: ['ate', '', 'iti', ''],
  u: ['ous', ''],
  v: ['ive', ''],
  z: ['ize', ''],
}

function plural(word: string): string {
  if (!word.endsWith('s') || word.endsWith('ss')) {
    return word.endsWith('sses') ? word.slice(0, -2) : word
  }
  return word.slice(0, word.endsWith('sses') || word.endsWith('ies') ? -2 : -1)
}

function pastAndIng(word: string): string {
  if (word.endsWith('eed')) return measure(word, word.length - 3) > 0 ? word.slice(0, -1) : word
  const cut = word.endsWith('ed') ? 2 : word.endsWith('ing') ? 3 : 0
  if (cut === 0 || !hasVowel(word, word.length - cut)) return word
  const stem = word.slice(0, word.length - cut)
  if (stem.endsWith('at') || stem.endsWith('bl') || stem.endsWith('iz')) return `${stem}e`
  const last = stem[stem.length - 1]!
  if (stem.length > 1 && last === stem[stem.length - 2] && isConsonant(stem, stem.length - 1)) {
    return 'lsz'.includes(last) ? stem : stem.slice(0, -1)
  }
  return measure(stem, stem.length) === 1 && endsShort(stem, stem.length) ? `${stem}e` : stem
}

/** The first suffix that fits decides, whether or not enough comes before it. */
function replaceSuffix(word: string, suffixes: readonly string[] | undefined, measureMin: number): string {
  if (!suffixes) return word
  for (let i = 0; i < suffixes.length; i += 2) {
    const suffix = suffixes[i]!
    if (!word.endsWith(suffix)) continue
    const replacement = suffixes[i + 1]!
    const stem = word.slice(0, word.length - suffix.length)
    // The s and t of -sion and -tion count as part of the stem.
    const counted = suffix.endsWith('ion') && measureMin === 1 ? stem + replacement : stem
    return measure(counted, counted.length) > measureMin ? stem + replacement : word
  }
  return word
}

function finalLetters(word: string): string {
  const last = word.length - 1
  let stem = word
  if (word[last] === 'e') {
    const size = measure(word, last)
    if (size > 1 || (size === 1 && !endsShort(word, last))) stem = word.slice(0, last)
  }
  return stem.endsWith('ll') && measure(stem, stem.length) > 1 ? stem.slice(0, -1) : stem
}

function isConsonant(word: string, at: number): boolean {
  const code = word.charCodeAt(at)
  return code === y ? at === 0 || !isConsonant(word, at - 1) : !isVowel(code)
}

const y = 121

/** a, e, i, o, u, by their bits: a table would be looked up for every letter. */
function isVowel(code: number): boolean {
  return ((0x104111 >>> (code - 97)) & 1) === 1
}

function hasVowel(word: string, end: number): boolean {
  let consonant = false
  for (let i = 0; i < end; i++) {
    const code = word.charCodeAt(i)
    consonant = code === y ? !consonant : !isVowel(code)
    if (!consonant) return true
  }
  return false
}

/** How often vowels are followed by consonants in the first `end` letters. */
function measure(word: string, end: number): number {
  let changes = 0
  let consonant = false
  for (let i = 0; i < end; i++) {
    const code = word.charCodeAt(i)
    const before: boolean = consonant
    // Behind a consonant y is a vowel; at the beginning it is a consonant.
    consonant = code === y ? !before : !isVowel(code)
    if (consonant && !before && i > 0) changes++
  }
  return changes
}

/** Consonant, vowel, consonant, the last one not w, x or y: the mark of a short syllable. */
function endsShort(word: string, end: number): boolean {
  if (end < 3 || !isConsonant(word, end - 1) || isConsonant(word, end - 2) || !isConsonant(word, end - 3))
    return false
  const last = word[end - 1]
  return last !== 'w' && last !== 'x' && last !== 'y'
}
