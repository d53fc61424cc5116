/** Addresses of real servers for test files of the projects `servers` and `faults`. */

import { inject } from 'vitest'
import type { StackAddress } from './stacks.ts'

/** `host:port` of every broker of a Kafka with one node (or of KAFKA_BROKERS). */
export async function kafkaBrokers(): Promise<string[]> {
  return ((await address('kafka')) as string).split(',')
}

/** The base URL of a registry with Confluent's API. */
export async function registryUrl(): Promise<string> {
  return (await address('registry')) as string
}

/** A fresh, empty database for each call, on a Postgres with pgvector (the extension is not created). */
export async function databaseUrl(): Promise<string> {
  return (await address('database')) as string
}

/** A Qdrant's URL, or null without a Qdrant: then the suite is skipped, and the run says so loudly. */
export function qdrantUrl(): Promise<string | null> {
  return address('qdrant')
}

/** Kafka and Qdrant for this file alone, until it calls `giveStackBack`. The worker's next file finds the same data. */
export function takeStack(): Promise<StackAddress> {
  return ask<StackAddress>(`stack/${process.env.VITEST_POOL_ID}`)
}

export async function giveStackBack(): Promise<void> {
  await ask(`stack-back/${process.env.VITEST_POOL_ID}`)
}

function address(name: string): Promise<string | null> {
  return ask<string | null>(name)
}

/** Throws when the server cannot be started: a suite that needs it must fail, not be skipped. */
async function ask<T>(name: string): Promise<T> {
  const response = await fetch(`${inject('serversUrl')}/${name}`, { signal: AbortSignal.timeout(900_000) })
  const body = (await response.json()) as { address: T; error?: string }
  if (!response.ok) throw new Error(body.error)
  return body.address
}
