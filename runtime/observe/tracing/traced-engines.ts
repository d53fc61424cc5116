/** Engines whose calls are spans, where work that is traced makes them. */

import { type Attributes, SpanKind } from '@opentelemetry/api'
import type { OpenEngines } from '#engines/open.ts'
import { followed, type Tracing } from './tracing.ts'

interface CallName {
  name: string
  attributes: Attributes
}

/** How the calls of an engine are named, by the name of the method; others are no spans. */
type CallNames = Readonly<Record<string, (args: readonly unknown[]) => CallName>>

export function tracedEngines(engines: Partial<OpenEngines>, tracing: Tracing): Partial<OpenEngines> {
  const { vectors, relational, mirror, embedder } = engines
  return {
    ...engines,
    ...(vectors && { vectors: traceCalls(vectors, vectorCalls(vectors.driver), tracing) }),
    ...(relational && { relational: traceCalls(relational, relationalCalls, tracing) }),
    ...(mirror && { mirror: traceCalls(mirror, mirrorCalls, tracing) }),
    ...(embedder && { embedder: traceCalls(embedder, embedderCalls(embedder.model), tracing) }),
  }
}

/** Calls that nobody traced makes go straight to the engine. */
function traceCalls<E extends { readonly driver: string }>(engine: E, names: CallNames, tracing: Tracing): E {
  // Within the process it is no call to elsewhere.
  const kind = engine.driver === 'embedded' || engine.driver === 'local' ? SpanKind.INTERNAL : SpanKind.CLIENT
  const methods = new Map<PropertyKey, unknown>()
  return new Proxy(engine, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      const known = methods.get(property)
      if (known) return known
      const call = (...args: unknown[]): unknown => Reflect.apply(value, target, args)
      const nameOf = typeof property === 'string' ? names[property] : undefined
      const method = nameOf ? tracedCall(call, nameOf, { kind, tracing }) : call
      methods.set(property, method)
      return method
    },
  })
}

function tracedCall(
  call: (...args: unknown[]) => unknown,
  nameOf: CallNames[string],
  { kind, tracing }: { kind: SpanKind; tracing: Tracing },
) {
  return (...args: unknown[]): unknown => {
    if (tracing.current().length === 0) return call(...args)
    const { name, attributes } = nameOf(args)
    const span = tracing.beginChild(name, { kind, attributes })
    return followed([span], call(...args) as Promise<unknown>)
  }
}

function vectorCalls(driver: string): CallNames {
  const ofCollection = (operation: string) => (args: readonly unknown[]) => {
    const collection = String(args[0])
    const batch: Attributes = Array.isArray(args[1]) ? { 'db.operation.batch.size': args[1].length } : {}
    return {
      name: `${operation} ${collection}`,
      attributes: {
        'db.system.name': driver === 'qdrant' ? 'qdrant' : `flotilla.${driver}`,
        'db.operation.name': operation,
        'db.collection.name': collection,
        ...batch,
      },
    }
  }
  return {
    apply: ofCollection('apply'),
    search: ofCollection('search'),
    scroll: ofCollection('scroll'),
    count: ofCollection('count'),
    get: ofCollection('get'),
  }
}

function sqlCall(operation: string, target: string | undefined): CallName {
  const name = target ? `${operation} ${target}` : operation
  return {
    name,
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': operation,
      'db.query.summary': name,
    },
  }
}

/** The verb and the first table or function of ours: no value can be in it. */
function statementOf(text: unknown): CallName {
  const sql = String(text)
  const verb = /\b(?:select|insert|update|delete|with|merge)\b/i.exec(sql)?.[0].toUpperCase() ?? 'QUERY'
  return sqlCall(verb, /\b(?:platform|vectors)\.[a-z_]+/.exec(sql)?.[0])
}

const relationalCalls: CallNames = {
  query: ([text]) => statementOf(text),
  transaction: () => sqlCall('TRANSACTION', undefined),
  copy: ([table]) => sqlCall('COPY', String(table)),
}

const mirrorCalls: CallNames = {
  // A filter of a caller may be part of its text.
  read: () => sqlCall('SELECT', 'vectors.embeddings'),
  apply: () => sqlCall('TRANSACTION', 'vectors.embeddings'),
}

function embedderCalls(model: string): CallNames {
  return {
    embed: ([texts]) => ({
      name: `embeddings ${model}`,
      attributes: {
        'gen_ai.operation.name': 'embeddings',
        'gen_ai.request.model': model,
        'flotilla.texts': Array.isArray(texts) ? texts.length : 1,
      },
    }),
  }
}
