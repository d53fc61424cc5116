/** A small Qdrant in memory: every request is checked against Qdrant's description, then answered as Qdrant would. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRequestCheck } from './qdrant-openapi.ts'

interface FakePoint {
  id: string
  vector: number[]
  payload: Record<string, unknown>
}

/** The parts of Qdrant's filters that the driver uses. */
interface FakeFilter {
  must?: FakeCondition[]
  must_not?: FakeCondition[]
  should?: FakeCondition[]
}

type FakeCondition =
  | FakeFilter
  | { is_empty: { key: string } }
  | { has_id: string[] }
  | { key: string; match?: FakeMatch; range?: { gt?: number; gte?: number; lt?: number; lte?: number } }

type FakeMatch = { value: unknown } | { any: unknown[] } | { except: unknown[] } | { text: string }

interface FakeUpsert {
  points: FakePoint[]
  update_filter?: FakeFilter
}

interface FakeBody extends FakeUpsert {
  ids: string[]
  field_name: string
  field_schema: string | { type: string }
  operations: { set_payload: { payload: object; filter: FakeFilter } }[]
  key: string
  query: number[]
  limit: number
  offset?: string
  filter?: FakeFilter
  order_by?: { key: string; direction: 'asc' | 'desc' }
  with_payload: string[]
  with_vector: boolean
  vectors: object
  hnsw_config?: object
  quantization_config?: object | null
  on_disk_payload?: boolean
  params?: object
  actions: {
    create_alias?: { alias_name: string; collection_name: string }
    delete_alias?: { alias_name: string }
  }[]
}

export interface SeenRequest {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: FakeBody | undefined
}

type Failure = number | 'break' | 'hang'

export interface FakeQdrant {
  url: string
  requests: SeenRequest[]
  /** Requests so far that do not match the description. */
  faults: string[]
  /** Answers the next requests so: a status with Qdrant's error text, a broken connection, or never. */
  failNext(...failures: Failure[]): void
  /** The same for the next requests of one method. */
  failOf(method: string, ...failures: Failure[]): void
  /** Requests without an answer whose caller still waits. */
  hanging(): number
  close(): Promise<void>
}

/** Listens on a free port of the loopback. */
export async function openFakeQdrant(version = '1.19.0'): Promise<FakeQdrant> {
  const check = createRequestCheck()
  const requests: SeenRequest[] = []
  const faults: string[] = []
  const failures: Failure[] = []
  const failuresOf = new Map<string, Failure[]>()
  let hanging = 0
  const answer = createAnswers(version)
  const server = createServer((request, response) => {
    respond(request, response).catch((error: unknown) => {
      faults.push(String(error))
      request.socket.destroy()
    })
  })
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const seen = {
      method: request.method!,
      url: request.url!,
      headers: request.headers,
      body: await readBody(request),
    }
    requests.push(seen)
    faults.push(...check(seen.method, seen.url, seen.body))
    const failure = failuresOf.get(seen.method)?.shift() ?? failures.shift()
    if (failure === 'break') return void request.socket.destroy()
    if (failure === 'hang') {
      hanging++
      request.socket.once('close', () => hanging--)
      return
    }
    const { status, result } = failure ? { status: failure, result: undefined } : answer(seen)
    const said = status === 200 ? 'ok' : { error: 'Wrong input: secret internals' }
    response.writeHead(status, { 'content-type': 'application/json' })
    // The version is the one answer without a frame.
    const text = seen.url === '/' ? result : { result, status: said, time: 0 }
    response.end(JSON.stringify(text))
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    faults,
    failNext: (...next) => void failures.push(...next),
    failOf: (method, ...next) => void failuresOf.set(method, next),
    hanging: () => hanging,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface FakeCollection {
  points: Map<string, FakePoint>
  config: FakeConfig
  /** Name of a field → its index. */
  indexes: Record<string, object>
}

/** How a collection is kept, as the description's "CollectionConfig" tells it. */
interface FakeConfig {
  params: { vectors: object; on_disk_payload: boolean }
  hnsw_config: object
  quantization_config: object | null
}

interface Answer {
  status: number
  result: unknown
}

function createAnswers(version: string): (request: SeenRequest) => Answer {
  const collections = new Map<string, FakeCollection>()
  const aliases = new Map<string, string>()
  const ok = (result: unknown): Answer => ({ status: 200, result })
  const missing: Answer = { status: 404, result: undefined }

  function ofCollection(request: SeenRequest, name: string, rest: string): Answer {
    const call = `${request.method} ${rest}`
    if (call === 'GET exists') return ok({ exists: collections.has(aliases.get(name) ?? name) })
    if (call === 'PUT ') {
      if (collections.has(name)) return { status: 409, result: undefined }
      collections.set(name, { points: new Map(), config: configOf(request.body!), indexes: {} })
      return ok(true)
    }
    if (call === 'DELETE ') {
      for (const [alias, of] of aliases) if (of === name) aliases.delete(alias)
      return collections.delete(name) ? ok(true) : missing
    }
    const collection = collections.get(aliases.get(name) ?? name)
    return collection ? ok(ofPoints(collection, call, request.body)) : missing
  }
  return (request) => {
    const [, first, name, ...rest] = new URL(request.url, 'http://fake').pathname.split('/')
    if (first === '') return ok({ title: 'qdrant', version })
    if (first === 'aliases') {
      return ok({
        aliases: [...aliases].map(([alias_name, collection_name]) => ({ alias_name, collection_name })),
      })
    }
    if (name === 'aliases') {
      for (const action of request.body!.actions) {
        if (action.delete_alias) aliases.delete(action.delete_alias.alias_name)
        else aliases.set(action.create_alias!.alias_name, action.create_alias!.collection_name)
      }
      return ok(true)
    }
    if (name === undefined)
      return ok({ collections: [...collections.keys()].map((each) => ({ name: each })) })
    return ofCollection(request, decodeURIComponent(name), rest.join('/'))
  }
}

function configOf({
  vectors,
  hnsw_config,
  quantization_config = null,
  on_disk_payload = true,
}: FakeBody): FakeConfig {
  return {
    params: { vectors, on_disk_payload },
    hnsw_config: { on_disk: false, ...hnsw_config },
    quantization_config,
  }
}

/** Changes the named parts alone. */
function changeConfig(config: FakeConfig, { vectors, hnsw_config, quantization_config, params }: FakeBody) {
  Object.assign(config.params.vectors, (vectors as Record<string, object> | undefined)?.[''])
  Object.assign(config.params, params)
  Object.assign(config.hnsw_config, hnsw_config)
  if (quantization_config) config.quantization_config = quantization_config
}

function ofPoints(
  { points, config, indexes }: FakeCollection,
  call: string,
  body: FakeBody | undefined,
): unknown {
  const done = { operation_id: 1, status: 'completed' }
  const matching = () => [...points.values()].filter((point) => matches(point, body?.filter))
  const show = (point: FakePoint) => ({
    id: point.id,
    payload: Object.fromEntries(
      Object.entries(point.payload).filter(([key]) => body!.with_payload.includes(key)),
    ),
    ...(body!.with_vector ? { vector: point.vector } : {}),
  })
  switch (call) {
    case 'GET ':
      return {
        status: 'green',
        points_count: points.size,
        indexed_vectors_count: 0,
        payload_schema: indexes,
        config,
      }
    case 'PATCH ':
      changeConfig(config, body!)
      return true
    case 'PUT index': {
      const { field_name, field_schema } = body!
      const known = typeof field_schema === 'string' ? {} : { params: field_schema }
      const data_type = typeof field_schema === 'string' ? field_schema : field_schema.type
      indexes[field_name] = { data_type, points: points.size, ...known }
      return done
    }
    case 'PUT points':
      upsert(points, body!)
      return done
    case 'POST points/batch':
      for (const { set_payload } of body!.operations) {
        for (const point of points.values()) {
          if (matches(point, set_payload.filter)) Object.assign(point.payload, set_payload.payload)
        }
      }
      return [done]
    case 'POST points/delete':
      for (const { id } of matching()) points.delete(id)
      return done
    case 'POST points':
      return body!.ids.flatMap((id) => (points.has(id) ? [show(points.get(id)!)] : []))
    case 'POST points/count':
      return { count: matching().length }
    case 'POST facet': {
      const values = matching().flatMap((point) => (point.payload[body!.key] as string | undefined) ?? [])
      const hits = [...new Set(values)].map((value) => ({
        value,
        count: values.filter((one) => one === value).length,
      }))
      return { hits }
    }
    case 'POST points/scroll': {
      if (body!.order_by)
        return { points: inOrder(matching(), body!.order_by).slice(0, body!.limit).map(show) }
      const sorted = matching().sort((a, b) => (a.id < b.id ? -1 : 1))
      const page = sorted.filter((point) => body!.offset === undefined || point.id >= body!.offset)
      return { points: page.slice(0, body!.limit).map(show), next_page_offset: page[body!.limit]?.id ?? null }
    }
    case 'POST points/query': {
      const query = toUnit(body!.query)
      const score = (point: FakePoint) =>
        point.vector.reduce((sum, component, i) => sum + component * query[i]!, 0)
      const scored = matching().map((point) => ({ ...show(point), score: score(point), version: 1 }))
      return { points: scored.sort((a, b) => b.score - a.score).slice(0, body!.limit) }
    }
    default:
      throw new Error(`the fake Qdrant does not know ${call}`)
  }
}

/** As Qdrant, which leaves out points without the field and keeps no order among equal ones. */
function inOrder(points: FakePoint[], { key, direction }: { key: string; direction: string }): FakePoint[] {
  const sign = direction === 'asc' ? 1 : -1
  const numberOf = (point: FakePoint) => valueAt(point, key) as number
  const there = points.filter((point) => numberOf(point) !== undefined).reverse()
  return there.sort((a, b) => (numberOf(a) - numberOf(b)) * sign)
}

/** Points that are there and do not match the condition stay as they are; absent ones are inserted whatever it says. */
function upsert(points: Map<string, FakePoint>, operation: FakeUpsert): void {
  const taken = operation.points.filter(({ id }) => {
    const there = points.get(id)
    return there === undefined || matches(there, operation.update_filter)
  })
  for (const point of taken) points.set(point.id, { ...point, vector: toUnit(point.vector) })
}

function matches(point: FakePoint, { must = [], must_not = [], should }: FakeFilter = {}): boolean {
  const met = (condition: FakeCondition) => holds(point, condition)
  return must.every(met) && !must_not.some(met) && (should === undefined || should.some(met))
}

function holds(point: FakePoint, condition: FakeCondition): boolean {
  if ('has_id' in condition) return condition.has_id.includes(point.id)
  if ('is_empty' in condition) return valueAt(point, condition.is_empty.key) === undefined
  if (!('key' in condition)) return matches(point, condition)
  const { key, match, range } = condition
  const found = valueAt(point, key)
  const values = Array.isArray(found) ? found : found === undefined ? [] : [found]
  return values.some((value) => (match ? fits(value, match) : range !== undefined && isWithin(value, range)))
}

function valueAt(point: FakePoint, key: string): unknown {
  return key
    .split('.')
    .reduce<unknown>((value, name) => (value as FakePoint['payload'])?.[name], point.payload)
}

function fits(value: unknown, match: FakeMatch): boolean {
  if ('value' in match) return value === match.value
  if ('any' in match) return match.any.includes(value)
  if ('except' in match) return !match.except.includes(value)
  return typeof value === 'string' && value.includes(match.text)
}

/** As Qdrant, which compares numbers only: a point without the field is neither below nor above. */
function isWithin(value: unknown, range: { gt?: number; gte?: number; lt?: number; lte?: number }): boolean {
  if (typeof value !== 'number') return false
  const { gt, gte, lt, lte } = range
  return (
    value > (gt ?? Number.NEGATIVE_INFINITY) &&
    value >= (gte ?? Number.NEGATIVE_INFINITY) &&
    value < (lt ?? Number.POSITIVE_INFINITY) &&
    value <= (lte ?? Number.POSITIVE_INFINITY)
  )
}

function toUnit(vector: number[]): number[] {
  const length = Math.hypot(...vector)
  return vector.map((component) => component / length)
}

async function readBody(request: IncomingMessage): Promise<FakeBody | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? undefined : (JSON.parse(text) as FakeBody)
}
