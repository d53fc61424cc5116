/** Makes questions as people type them out of judged queries: quotes, colons, brackets, abbreviations, several lines. */

import type { JudgedQuery } from '../../bench/judge.ts'
import { seededRandom } from './index.ts'

/** Each takes the words of a query and the place of one of them. */
const decorations: ((words: string[], at: number) => string)[] = [
  (words, at) => quoted(words, at, 3),
  (words, at) => `(${words.slice(0, at).join(' ')}) [${words.slice(at).join(' ')}]?`,
  (words, at) => `${words.slice(0, at).join(' ')}: ${words.slice(at).join(' ')} - e.g. "xyzzy plugh"`,
  (words, at) => `Examples:\n- ${words.slice(0, at).join(' ')}\n- ${words.slice(at).join(' ')}\n\nnote:this`,
  (words) => words.join(':'),
  (words) => `"${[...words].reverse().join(' ')}"`,
  (words, at) => `status:${words[at]} ${words.join(' ')} path:"no such/place"`,
  (words) => `"${words.join(' ')}" (i.e. ${words.join('/')})!`,
]

/** Every query in each of these forms in turn. */
export function asQuestions(queries: readonly JudgedQuery[], seed: number): JudgedQuery[] {
  const random = seededRandom(seed)
  return queries.map((query, i) => {
    const words = query.text.match(/[\p{L}\p{N}_]+/gu) ?? []
    const text = decorations[i % decorations.length]!(words, Math.floor(random() * words.length))
    return { ...query, text }
  })
}

function quoted(words: string[], at: number, count: number): string {
  const phrase = words.slice(at, at + count).reverse()
  return [...words.slice(0, at), `"${phrase.join(' ')}"`, ...words.slice(at + count)].join(' ')
}
