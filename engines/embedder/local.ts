/**
 * The built-in embedders: in process, deterministic, without a network. A few short texts are embedded by the caller's thread, long
 * ones by a thread of its own, which is there while it has work.
 */

import { AppError, describeError, overloaded } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import { type BuiltIn, builtInSpaces, embedTextWith } from './embed-text.ts'
import type { EmbedHandlers } from './embed-thread.ts'
import { dimensions } from './lexical.ts'
import type { Embedder } from './port.ts'

/** Up to so many characters hold the caller's thread up for a few milliseconds at most. */
const charactersHere = 10_000
/** Characters of texts that may wait for the thread, two bytes each; one call may have more. */
const charactersWaitingMax = 32 * 2 ** 20
const idleMs = 60_000
const heapMbMax = 256

/**
 * `meaning` adds a learned table of word pieces onto the words' vector; `lexical` knows words, not their meaning. Nothing is
 * read before the first text. `embed` also throws AppError `overloaded` while too many texts wait.
 */
export function openLocalEmbedder(kind: BuiltIn = 'meaning'): Embedder {
  const space = builtInSpaces[kind]
  let thread: WorkerClient<EmbedHandlers> | undefined
  let ending: NodeJS.Timeout | undefined
  let waiting = 0

  function openThread(): WorkerClient<EmbedHandlers> {
    const entry = new URL('./embed-thread.ts', import.meta.url)
    const opened = openWorker<EmbedHandlers>({ entry, name: 'embedder', data: kind, heapMbMax }, (cause) => {
      if (thread === opened) thread = undefined
      return new AppError('embedder_unavailable', `The embedder's thread ended: ${describeError(cause)}.`, {
        retryAfter: 1,
        cause,
      })
    })
    return opened
  }
  async function endThread(): Promise<void> {
    const ended = thread
    thread = undefined
    await ended?.terminate()
  }
  async function embedThere(texts: string[], characters: number): Promise<Float32Array[]> {
    if (waiting > 0 && waiting + characters > charactersWaitingMax) {
      throw overloaded('Too many texts wait to be embedded')
    }
    waiting += characters
    clearTimeout(ending)
    try {
      thread ??= openThread()
      const all = await thread.call.embed(texts)
      return texts.map((_, n) => all.slice(n * dimensions, (n + 1) * dimensions))
    } finally {
      waiting -= characters
      if (waiting === 0) ending = setTimeout(() => void endThread(), idleMs).unref()
    }
  }
  return {
    driver: 'local',
    model: space,
    space,
    async embed(texts) {
      const characters = texts.reduce((sum, text) => sum + text.length, 0)
      if (characters > charactersHere) return embedThere(texts, characters)
      return texts.map((text) => embedTextWith(kind, text))
    },
    async ping() {},
    async close() {
      clearTimeout(ending)
      await endThread()
    },
  }
}
