/** A schema registry behind Confluent's API: subjects and schema texts in, ids out, and back; answers are kept. */

import { SchemaRegistry as Client, COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry'
import { LRUCache } from 'lru-cache'
import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { SchemaRegistry } from './port.ts'

const registerTimeoutMs = 10_000
const readTimeoutMs = 5_000
const pingTimeoutMs = 2_000
/** Schemas that are kept; a platform has some dozens. */
const keptMax = 2_000

/** `url` is the base of the API and may hold `user:password@`. Nothing is asked before the first call. */
export async function openConfluentRegistry(options: { url: string }): Promise<SchemaRegistry> {
  const { host, auth } = takeApart(options.url)
  const client = new Client({
    host,
    ...(auth ? { auth } : {}),
    retry: { retries: 2, initialRetryTimeInSecs: 0.1, maxRetryTimeInSecs: 1 },
  })
  const ids = new LRUCache<string, number>({ max: keptMax })
  const schemas = new LRUCache<number, string>({ max: keptMax })
  const headers = auth
    ? { authorization: `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}` }
    : {}
  const read = (path: string, timeoutMs: number) =>
    fetch(`${host}${path}`, { headers, signal: AbortSignal.timeout(timeoutMs) }).catch((cause) => {
      throw registryUnavailable(cause)
    })
  return {
    driver: 'confluent',
    async register(subject, schema) {
      const name = `${subject}\n${schema}`
      const known = ids.get(name)
      if (known !== undefined) return known
      const registering = client.register(
        { type: SchemaType.AVRO, schema },
        { subject, compatibility: COMPATIBILITY.BACKWARD },
      )
      const { id } = await withTimeout(registering, registerTimeoutMs, () => registryUnavailable()).catch(
        (error: unknown) => {
          throw registrationFault(subject, error)
        },
      )
      ids.set(name, id)
      return id
    },
    // The client would parse the text and hand out the parsed form, without what Avro itself does not need.
    async schemaById(id) {
      const known = schemas.get(id)
      if (known !== undefined) return known
      const response = await read(`/schemas/ids/${id}`, readTimeoutMs)
      if (response.status === 404) {
        throw new AppError('not_found', `The schema registry knows no schema with the id ${id}.`)
      }
      if (!response.ok) throw registryUnavailable(new Error(`status ${response.status}`))
      const { schema } = (await response.json().catch(() => ({}))) as { schema?: unknown }
      if (typeof schema !== 'string') throw registryUnavailable(new Error('an answer without a schema'))
      schemas.set(id, schema)
      return schema
    },
    async ping(timeoutMs = pingTimeoutMs) {
      const response = await read('/subjects', timeoutMs)
      await response.body?.cancel()
      if (!response.ok) throw registryUnavailable(new Error(`status ${response.status}`))
    },
    async close() {},
  }
}

function takeApart(text: string): { host: string; auth?: { username: string; password: string } } {
  const url = new URL(text)
  const auth = { username: decodeURIComponent(url.username), password: decodeURIComponent(url.password) }
  url.username = ''
  url.password = ''
  const host = url.href.replace(/\/+$/, '')
  return auth.username === '' ? { host } : { host, auth }
}

/**
 * 409: the registry compared with the last version and refused; 422: it does not take the text for Avro. The client
 * itself refuses text that is not Avro, and a subject that somebody has given another level than BACKWARD. Whatever
 * else it throws (a refused connection looks like status 400) means that the registry could not do its work.
 */
function registrationFault(subject: string, error: unknown): AppError {
  if (error instanceof AppError) return error
  const { status, name } = error as { status?: number; name?: string }
  if (name === 'ConfluentSchemaRegistryCompatibilityError') {
    return incompatible(`The subject ${subject} is set to another compatibility than BACKWARD.`, error)
  }
  if (status === 409)
    return incompatible(`The schema of ${subject} cannot read what was written before.`, error)
  if (status === undefined || status === 422)
    return incompatible(`The schema of ${subject} is not valid Avro.`, error)
  return registryUnavailable(error)
}

function incompatible(message: string, cause: unknown): AppError {
  return new AppError('incompatible_schema', message, { cause })
}

function registryUnavailable(cause?: unknown): AppError {
  return new AppError('registry_unavailable', 'The schema registry does not answer; try again in a second.', {
    retryAfter: 1,
    ...(cause === undefined ? {} : { cause }),
  })
}
