/** Writes long answers piece by piece, as fast as their reader takes them, and answers in the form of their interface. */

import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import buildSerializer from 'fast-json-stringify'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { TSchema } from 'typebox'
import { answers, type HeldAnswer, pieceBytesMax, readLarge } from './answers.ts'

/** Given to the connection at once. */
const sliceBytes = 64 * 1024

interface RowsAnswer<Row> {
  /** Text before the first row. */
  begin: string
  /** Text behind the last row; called once all have been read. */
  end(): string
  /** A row as JSON. */
  textOf(row: Row): string
  /** Pieces of rows. Each is read when the reader has taken the one before. */
  pieces: AsyncIterable<Row[]>
}

/**
 * Begins a JSON answer of rows, which has its part of the budget already (`answers.hold`). Read the first piece before, so
 * that what fails there is a problem document. A later fault cuts the connection, so that nobody takes the answer for a
 * whole one. Return the result from the handler.
 */
export function sendRows<Row>(
  reply: FastifyReply,
  answer: RowsAnswer<Row>,
  held: HeldAnswer | undefined = answers.of(reply),
): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(inSlices(textsOf(answer), held))
}

async function* textsOf<Row>({ begin, end, textOf, pieces }: RowsAnswer<Row>): AsyncGenerator<string> {
  const reading = pieces[Symbol.asyncIterator]()
  let before = begin
  try {
    for (;;) {
      const text = await readLarge(async () => {
        const { done, value } = await reading.next()
        return done ? null : value.map(textOf).join(',')
      })
      if (text === null) break
      if (text === '') continue
      yield before + text
      before = ','
      await nextTurn()
    }
    yield before === ',' ? end() : begin + end()
  } finally {
    await reading.return?.()
  }
}

/** Slices are small, so that also a slow reader is seen to take some. `held` notes when it last did. */
function inSlices(texts: AsyncIterator<string> | Iterator<string>, held: HeldAnswer | undefined): Readable {
  let rest = Buffer.alloc(0)

  async function next(): Promise<Buffer | null> {
    if (rest.length === 0) {
      if (held) held.takenAt = Number.POSITIVE_INFINITY
      const { done, value } = await texts.next()
      if (done) return null
      rest = Buffer.from(value)
    }
    const slice = rest.subarray(0, sliceBytes)
    rest = rest.subarray(slice.length)
    return slice
  }
  const body = new Readable({
    highWaterMark: 1,
    read() {
      next().then(
        (slice) => {
          if (held) held.takenAt = performance.now()
          body.push(slice)
        },
        (error) => body.destroy(error),
      )
    },
    destroy(error, done) {
      Promise.resolve(texts.return?.()).catch(() => {})
      done(error)
    },
  })
  return body
}

/** The texts before and behind the rows of an answer, in the form of its interface. */
export function around({ routeOptions }: FastifyReply): Pick<RowsAnswer<unknown>, 'begin' | 'end'> {
  const empty = JSON.stringify(routeOptions.config.form?.answer([]) ?? [])
  const at = empty.indexOf('[]') + 1
  return { begin: empty.slice(0, at), end: () => empty.slice(at) }
}

/** Writes a row by its schema, as answers are written; compiled at the first row. */
export function createRowText<Row>(schema: object): (row: Row) => string {
  let serialize: ((row: Row) => string) | undefined
  return (row) => {
    serialize ??= buildSerializer(schema)
    return serialize(row)
  }
}

/** Large answers that a handler gives whole take their part of the budget, too, and go out in slices. */
export function registerLargeAnswers(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    if (typeof payload !== 'string' || payload.length <= sliceBytes) return done(null, payload)
    const held = answers.of(reply)
    if (!held && payload.length <= pieceBytesMax) return done(null, payload)
    const sliced = async () => {
      reply.header('content-length', Buffer.byteLength(payload))
      return inSlices([payload][Symbol.iterator](), answers.of(reply))
    }
    const sending = held ? sliced() : answers.hold(request, reply, sliced, payload.length)
    sending.then(
      (body) => done(null, body),
      (error) => done(error as Error),
    )
  })
}

export interface AnswerForm {
  schemaOf(data: TSchema): TSchema
  answer(data: unknown): object
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Kept by `wrapAnswers`. */
    form?: AnswerForm
  }
}

/** Every successful JSON answer of routes that are registered later in `scope`, and its schema, get this form. */
export function wrapAnswers(scope: FastifyInstance, form: AnswerForm): void {
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, form }
    const { response } = (route.schema ?? {}) as { response?: Record<string, TSchema> }
    if (!response) return
    const wrapped = Object.entries(response).map(([status, schema]) => [
      status,
      isJson(status, schema) ? form.schemaOf(schema) : schema,
    ])
    route.schema = { ...route.schema, response: Object.fromEntries(wrapped) }
  })
  // Not called for streams, texts and empty answers.
  scope.addHook('preSerialization', (_request, reply, payload, done) => {
    done(null, reply.statusCode < 400 ? form.answer(payload) : payload)
  })
}

function isJson(status: string, schema: object): boolean {
  return status.startsWith('2') && !('content' in schema) && (schema as { type?: unknown }).type !== 'null'
}
