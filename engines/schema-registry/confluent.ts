/** A schema registry behind Confluent's API. Its answers are kept, because ids never change. */

import { Agent as HttpsAgent } from 'node:https'
import { SchemaRegistry as Client, COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry'
import { LRUCache } from 'lru-cache'
import { Agent, fetch } from 'undici'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { ClientCertificate } from '#lib/tls.ts'
import type { SchemaRegistry } from './port.ts'

/** The client's message when a subject has another compatibility level than the one that is wanted. */
const levelFault = 'ConfluentSchemaRegistryCompatibilityError'
const registerTimeoutMs = 10_000
const readTimeoutMs = deadlines.engine.registryReadMs
const pingTimeoutMs = deadlines.engine.pingMs
/**
 * Processes that register a new subject at the same time disturb each other: some registries answer 409 to the later
 * one, or show the subject before its level is set. Only what is refused again after each of these pauses is refused.
 */
const racePausesMs = [50, 150, 400, 1_000]
/** Schemas that are kept; a platform has some dozens. */
const keptMax = 2_000

interface RegistryOptions {
  url: string
  /** For a registry that asks for one. */
  certificate?: ClientCertificate | null
}

/** `url` is the base of the API and may hold `user:password@`. Nothing is asked before the first call. */
export async function openConfluentRegistry({
  url,
  certificate = null,
}: RegistryOptions): Promise<SchemaRegistry> {
  const { host, auth } = takeApart(url)
  const dispatcher = certificate ? new Agent({ connect: certificate }) : null
  const client = new Client({
    host,
    ...(auth ? { auth } : {}),
    ...(certificate ? { agent: new HttpsAgent({ ...certificate, keepAlive: true }) } : {}),
    retry: { retries: 2, initialRetryTimeInSecs: 0.1, maxRetryTimeInSecs: 1 },
  })
  const ids = new LRUCache<string, number>({ max: keptMax })
  const schemas = new LRUCache<number, string>({ max: keptMax })
  const headers = auth
    ? { authorization: `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}` }
    : {}
  const read = (path: string, timeoutMs: number) =>
    fetch(`${host}${path}`, {
      headers,
      signal: AbortSignal.timeout(timeoutMs),
      ...(dispatcher ? { dispatcher } : {}),
    }).catch((cause) => {
      throw registryUnavailable(cause)
    })
  return {
    driver: 'confluent',
    async register(subject, schema) {
      const name = `${subject}\n${schema}`
      const known = ids.get(name)
      if (known !== undefined) return known
      const registering = registerRacing(client, subject, schema)
      const id = await withTimeout(registering, registerTimeoutMs, () => registryUnavailable())
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
      if (!response.ok) throw registryUnavailable(refusedWith(response))
      const { schema } = (await response.json().catch(() => ({}))) as { schema?: unknown }
      if (typeof schema !== 'string') throw registryUnavailable(new Error('an answer without a schema'))
      schemas.set(id, schema)
      return schema
    },
    async ping(timeoutMs = pingTimeoutMs) {
      const response = await read('/subjects', timeoutMs)
      await response.body?.cancel()
      if (!response.ok) throw registryUnavailable(refusedWith(response))
    },
    async close() {
      await dispatcher?.destroy()
    },
  }
}

/** Its status is what an operator needs to know. */
function refusedWith({ status }: { status: number }): Error {
  return Object.assign(new Error(`status ${status}`), { status })
}

async function registerRacing(client: Client, subject: string, schema: string): Promise<number> {
  for (let tries = 0; ; tries++) {
    try {
      const options = { subject, compatibility: COMPATIBILITY.BACKWARD }
      const { id } = await client.register({ type: SchemaType.AVRO, schema }, options)
      return id
    } catch (error) {
      const pauseMs = isConflict(error) ? racePausesMs[tries] : undefined
      if (pauseMs === undefined) throw registrationFault(subject, error)
      await sleep(pauseMs)
    }
  }
}

function isConflict(error: unknown): boolean {
  const { status, name } = error as { status?: number; name?: string }
  return status === 409 || name === levelFault
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
 * itself refuses text that is not Avro, and a subject that was given another level than BACKWARD. Whatever
 * else it throws (a refused connection looks like status 400) means that the registry could not do its work.
 */
function registrationFault(subject: string, error: unknown): AppError {
  if (error instanceof AppError) return error
  const { status, name } = error as { status?: number; name?: string }
  if (name === levelFault) {
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
