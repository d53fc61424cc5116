/** Calls what most searches call, so that V8's compiled form of it can be kept for later processes. */

import { openIndex } from '../index-file.ts'
import { readArguments } from './arguments.ts'
import { type Environment, indexOf, searchOptionTable } from './run.ts'

/**
 * With the arguments of a search that succeeded. Prints nothing. Phrases, filters and mistyped words are left
 * out, being rarer: every process pays for each function that is kept, whether it calls it or not.
 */
export function warmUp(args: readonly string[], env: Environment): void {
  const { values } = readArguments(args, searchOptionTable)
  const index = openIndex(indexOf(values, env))
  try {
    index.search('the of')
  } finally {
    index.close()
  }
}
