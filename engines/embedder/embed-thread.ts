/** The thread that embeds long texts. Its callers take turns, a few texts at a time. */

import { setImmediate } from 'node:timers/promises'
import { ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import { type BuiltIn, embedTextWith } from './embed-text.ts'
import { dimensions } from './lexical.ts'

const kind = ownData<BuiltIn>()
/** About a millisecond of work. */
const charactersPerTurn = 4_000

const handlers = {
  /** The vectors one after the other. */
  async embed(texts: string[]) {
    const vectors = new Float32Array(texts.length * dimensions)
    let characters = 0
    for (const [n, text] of texts.entries()) {
      vectors.set(embedTextWith(kind, text), n * dimensions)
      characters += text.length
      if (characters < charactersPerTurn) continue
      characters = 0
      await setImmediate()
    }
    return new Transferred(vectors, [vectors.buffer])
  },
}

export type EmbedHandlers = typeof handlers

serveWorker(handlers)
