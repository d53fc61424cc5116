/** Makes the forms of a word with one letter left out: two words one edit apart share such a form. */

/** Shorter words have too many neighbours. */
export const correctableMin = 4
export const correctableMax = 24

/** Whether corrections may lead to this word: letters only, and of a length that people mistype. */
export function hasDeletions(surface: string): boolean {
  return surface.length >= correctableMin && surface.length <= correctableMax && /^\p{L}+$/u.test(surface)
}

/** The word itself and each form with one code point left away, each once. */
export function deletionsOf(surface: string): Set<string> {
  const letters = [...surface]
  const forms = new Set([surface])
  for (let i = 0; i < letters.length; i++) {
    if (letters[i] !== letters[i + 1]) forms.add(letters.slice(0, i).join('') + letters.slice(i + 1).join(''))
  }
  return forms
}
