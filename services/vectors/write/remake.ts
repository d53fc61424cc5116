/**
 * Makes the vectors of texts again that another embedder made, while their records are read: so a generation that
 * `flotilla rebuild embeddings` began gets vectors of one embedder, and no record in the log is changed.
 */

import type { Logger } from 'pino'
import type { Embedder } from '#engines/embedder/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'

type Handle<C> = (messages: Message<VectorUpsert>[], context: C) => Promise<BatchOutcome[]>

interface RemakeParts {
  embedder: Pick<Embedder, 'space' | 'embed' | 'ping'>
  /** The generation's; null where vectors stay as they are. */
  space: string | null
  log: Pick<Logger, 'warn'>
}

interface Stale {
  /** Its place in the batch. */
  index: number
  text: string
}

/** Texts of one request to the embedder: endpoints bound their number, and all they hold. */
const textsMax = 64
const charactersMax = 262_144
const requestMs = deadlines.handler.remakeMs
/** No further request begins after this time: the rest of the batch follows in another call. */
const budgetMs = requestMs
const pingMs = 5_000

/**
 * Gives `handle` the batch with its vectors made again. While the embedder is away the records from the first stale one on
 * answer `unavailable`. A text that the embedder refuses keeps the vector of its record.
 */
export function remaking<C extends Pick<CallContext, 'signal'>>(
  handle: Handle<C>,
  { embedder, space, log }: RemakeParts,
): Handle<C> {
  if (space === null) return handle
  if (space !== embedder.space) {
    const advice = '`flotilla rebuild embeddings` makes all vectors by the embedder of this platform.'
    log.warn({ made: space, embedder: embedder.space, advice }, 'index.other-embedder')
    return handle
  }
  let isSaid = false
  function refused(texts: number, cause: unknown): void {
    if (!isSaid) log.warn({ texts, reason: describeError(cause) }, 'vectors.text-refused')
    isSaid = true
  }
  return async function handleRemade(messages, context) {
    const ready = [...messages]
    const begunAt = performance.now()
    let whole = messages.length
    let reason = ''
    for (const some of inRequests(staleOf(messages, space))) {
      if (performance.now() - begunAt > budgetMs) {
        whole = some[0]!.index
        reason = 'The embedder is slow: the rest of the batch follows.'
        break
      }
      try {
        const vectors = await embedAll(embedder, some, refused)
        context.signal.throwIfAborted()
        for (const [n, { index }] of some.entries())
          ready[index] = withVector(messages[index]!, vectors[n], space)
      } catch (error) {
        if (!isUnavailable(error)) throw error
        whole = some[0]!.index
        reason = describeError(error)
        break
      }
    }
    const outcomes = whole === 0 ? [] : await handle(ready.slice(0, whole), context)
    return [...outcomes, ...messages.slice(whole).map(() => unavailable('embedder', reason))]
  }
}

function staleOf(messages: Message<VectorUpsert>[], space: string): Stale[] {
  return messages.flatMap(({ value }, index) => {
    if (value === null || value.embedder === null || value.embedder === space) return []
    const text = textIn(value.payload)
    return text === undefined ? [] : [{ index, text }]
  })
}

function textIn(payload: string): string | undefined {
  try {
    const { text } = JSON.parse(payload) as { text?: unknown }
    return typeof text === 'string' && text !== '' ? text : undefined
  } catch {
    // The handler parks it.
    return undefined
  }
}

function* inRequests(stale: Stale[]): Generator<Stale[]> {
  let some: Stale[] = []
  let characters = 0
  for (const one of stale) {
    if (some.length === textsMax || (some.length > 0 && characters + one.text.length > charactersMax)) {
      yield some
      some = []
      characters = 0
    }
    some.push(one)
    characters += one.text.length
  }
  if (some.length > 0) yield some
}

/**
 * The vectors of the texts; undefined for each that the embedder refuses although it works. Throws AppError
 * `embedder_unavailable` when it is away, or refuses everything.
 */
async function embedAll(
  embedder: RemakeParts['embedder'],
  some: Stale[],
  refused: (texts: number, cause: unknown) => void,
): Promise<(Float32Array | undefined)[]> {
  const away = (cause?: unknown) =>
    new AppError('embedder_unavailable', 'The embedder does not answer.', { cause })
  try {
    const texts = some.map(({ text }) => text)
    return await withTimeout(embedder.embed(texts, AbortSignal.timeout(requestMs)), requestMs, away)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_configuration') throw error
    if (some.length === 1) {
      await embedder.ping(pingMs).catch((fault) => {
        throw away(fault)
      })
      refused(1, error)
      return [undefined]
    }
    const half = some.length >> 1
    return [
      ...(await embedAll(embedder, some.slice(0, half), refused)),
      ...(await embedAll(embedder, some.slice(half), refused)),
    ]
  }
}

/** Key and headers of a message are getters, which a spread would leave out. */
function withVector(
  message: Message<VectorUpsert>,
  vector: Float32Array | undefined,
  embedder: string,
): Message<VectorUpsert> {
  if (vector === undefined || message.value === null) return message
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength)
  const value = { ...message.value, vector: bytes, embedder }
  const { key, headers, partition, offset, timestamp } = message
  return { key, headers, partition, offset, timestamp, value }
}
