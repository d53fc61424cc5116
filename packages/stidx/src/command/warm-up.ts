/** Calls everything that searches call, so that V8's compiled form of it can be kept for later processes. */

import { openIndex } from '../index-file.ts'
import { readArguments } from './arguments.ts'
import { renderAnswer } from './render.ts'
import { type Environment, indexOf, searchOptionTable } from './run.ts'

/** With the arguments of a search that succeeded. Prints nothing. */
export function warmUp(args: readonly string[], env: Environment): void {
  const { values } = readArguments(args, searchOptionTable)
  const index = openIndex(indexOf(values, env))
  try {
    const { results } = index.search('the of a index* "of the" title:the zebrra quokkka caféé', { limit: 3 })
    const { results: others } = index.search(`wrold ${results[0]?.title ?? ''}`, {
      scoring: 'literal',
      tag: 'none',
    })
    for (const { id } of [...results, ...others]) index.get(id)
    const corrected = { zebrra: 'zebra' }
    const answer = { query: 'the of', total: 1, took_ms: 0, corrected, results }
    renderAnswer(answer, (id) => index.get(id), { width: 100, isColoured: true })
    JSON.stringify(answer)
  } finally {
    index.close()
  }
}
