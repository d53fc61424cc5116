/** Calls of engines as spans: named without a value of the call, and only for work that is traced. */

import { type Span, SpanKind } from '@opentelemetry/api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { OpenEngines } from '#engines/open.ts'
import { AppError } from '#lib/errors.ts'
import { tracedEngines } from '#runtime/observe/tracing/traced-engines.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import { type OtlpReceiver, openOtlpReceiver } from '../../../../support/otlp-receiver.ts'

/** As drivers are written: fields that only their own methods reach. */
class Database {
  readonly driver = 'postgres'
  readonly #rows = [{ one: 1 }]

  async query(text: string) {
    if (text.includes('broken')) throw Object.assign(new Error('secret-value'), { code: '23505' })
    return { rows: this.#rows, rowCount: 1 }
  }

  async transaction<T>(work: (tx: Database) => Promise<T>): Promise<T> {
    return work(this)
  }

  async ping() {}
}

const model = 'text-embedding-3-small'
const embedder = {
  driver: 'openai',
  model,
  async embed() {
    throw new AppError('embedder_unavailable', 'The embedder does not answer.')
  },
}

let receiver: OtlpReceiver
let tracing: Tracing
let engines: Pick<OpenEngines, 'relational' | 'embedder'>
let work: Span
beforeEach(async () => {
  receiver = await openOtlpReceiver()
  tracing = await receiver.openTracing()
  const plain: Partial<Record<keyof OpenEngines, unknown>> = { relational: new Database(), embedder }
  engines = tracedEngines(plain as Partial<OpenEngines>, tracing) as OpenEngines
  work = tracing.begin('work', { kind: SpanKind.INTERNAL })
})
afterEach(async () => {
  await tracing.close()
  await receiver.close()
})

async function sent() {
  work.end()
  await tracing.close()
  return receiver.spans.filter(({ name }) => name !== 'work')
}

test('a statement has its verb and its first table, a fault its code, and neither a value', async () => {
  const { relational } = engines
  await tracing.run([work], async () => {
    await relational.query(`with x as (select 1) update platform.runs set slug = 'secret-value'`)
    await relational.query('select 1')
    await relational.transaction((tx) => tx.query('insert into platform.outbox'))
    await relational.query('select broken').catch(() => {})
    await engines.embedder.embed(['secret-value']).catch(() => {})
    await relational.ping()
  })
  const spans = await sent()
  expect(spans.map(({ name, kind, attributes }) => [name, kind, attributes['error.type']])).toEqual([
    ['WITH platform.runs', 3, undefined],
    ['SELECT', 3, undefined],
    ['TRANSACTION', 3, undefined],
    ['SELECT', 3, '23505'],
    [`embeddings ${model}`, 3, 'embedder_unavailable'],
  ])
  expect(new Set(spans.map(({ parentSpanId }) => parentSpanId))).toEqual(new Set([work.spanContext().spanId]))
  expect(JSON.stringify(spans)).not.toContain('secret-value')
})

test('work that is not traced, or is done for nobody in particular, makes no spans', async () => {
  const { relational } = engines
  expect((await relational.query('select 1')).rowCount).toBe(1)
  await tracing.run([work], () => tracing.run([], () => relational.query('select 1')))
  expect(await sent()).toEqual([])
  expect(engines.embedder.model).toBe(model)
})

test('work for several is a child of the first that has not ended, with links to the others', async () => {
  const [ended, other] = [0, 1].map(() => tracing.begin('work', { kind: SpanKind.INTERNAL }))
  ended!.end()
  await tracing.run([ended!, work, other!], () => engines.relational.query('select 1'))
  other!.end()
  const [span] = await sent()
  expect(span).toMatchObject({
    traceId: work.spanContext().traceId,
    parentSpanId: work.spanContext().spanId,
    links: [other!.spanContext().spanId],
  })
})
