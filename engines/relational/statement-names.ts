/**
 * Gives the texts of statements the names under which a connection may prepare them: parsed once, planned at every
 * use.
 */

import { LRUCache } from 'lru-cache'

/** Texts that are remembered; filters make new ones without end. */
const textsMax = 500

/** A prepared statement whose tables changed under it, or that the server does not know any more. */
export const outlivedStates = ['0A000', '26000']

export interface StatementNames {
  /** Undefined at a text's first use: most of those that callers write are never seen again. */
  of(text: string): string | undefined
  /** The text gets another name: what was prepared under this one does not fit the tables any more. */
  renew(text: string): void
}

/** Calls `forgotten` with each name that is not given any more. */
export function createStatementNames(forgotten?: (name: string) => void): StatementNames {
  /** Null: seen once. */
  const names = new LRUCache<string, { name: string | null }>({
    max: textsMax,
    dispose: ({ name }) => name !== null && forgotten?.(name),
  })
  let made = 0
  return {
    of(text) {
      const known = names.get(text)
      if (known === undefined) {
        names.set(text, { name: null })
        return undefined
      }
      // Never one that was given before: a connection may have it for another text.
      if (known.name === null) known.name = `s${++made}`
      return known.name
    },
    renew(text) {
      names.set(text, { name: null })
    },
  }
}
