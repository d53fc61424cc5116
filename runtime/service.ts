/** A service is data: a name, what it needs, a typed config, and one function. Importing one runs nothing. */

import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Static, TObject } from 'typebox'
import type { OpenEngines } from '#engines/open.ts'
import type { Environment } from '#lib/config.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Codec, Publisher, TopicPlace } from './messages.ts'

/** The engines by the names that services ask for. `localEmbedder` is the deterministic one, whatever is configured. */
export type Engines = OpenEngines

export type EngineName = keyof Engines

export interface ServiceContext<N extends EngineName, C> {
  engines: Pick<Engines, N>
  config: C
  /** Child logger with the service's name. */
  log: Logger
  metrics: Registry
  publisher: Publisher
  codec: Codec
  /** Random per process; tells instances apart in leases and groups. */
  instanceId: string
  /** Of the process: for files of the operator's that refer to variables. Never printed. */
  env: Environment
  /** Where the topics live; the publisher reads it at every publish. */
  places: Map<string, TopicPlace>
}

interface ServiceBase<N extends EngineName, S extends TObject> {
  name: string
  /** One sentence for --help and the docs. */
  purpose: string
  /** eventLog and schemaRegistry are always opened; name here what the service touches. */
  needs: readonly N[]
  config: S
  /** Throws AppError for files that the environment names and nobody could use; asked before anything is opened. */
  check?(env: Environment): void
}

export interface Ingress<N extends EngineName = EngineName, S extends TObject = TObject>
  extends ServiceBase<N, S> {
  kind: 'ingress'
  /** Key in addresses.json, environment variable of the port, default port. */
  address: { name: string; portVariable: string; port: number } | LoopbackAddress
  /** Registers the routes on an app that has the platform's errors, request ids and limits (runtime/http.ts). */
  routes(app: FastifyInstance, context: ServiceContext<N, Static<S>>): Promise<Closeable>
}

/**
 * An interface for callers on this machine alone: it binds 127.0.0.1 and, where there is IPv6, ::1, whatever HOST says,
 * and refuses other peers, Host headers and Origins.
 */
export interface LoopbackAddress {
  name: string
  /** `host:port` or a URL; a host that is not the loopback stops the start. */
  loopbackVariable: string
  port: number
}

export interface Worker<N extends EngineName = EngineName, S extends TObject = TObject>
  extends ServiceBase<N, S> {
  kind: 'worker'
  /** Starts working; close drains what is in flight (the caller bounds the time). */
  start(context: ServiceContext<N, Static<S>>): Promise<Closeable>
}

export type Service = Ingress | Worker

export function defineIngress<N extends EngineName, S extends TObject>(
  service: Omit<Ingress<N, S>, 'kind'>,
): Service {
  return { kind: 'ingress', ...service } as unknown as Service
}

export function defineWorker<N extends EngineName, S extends TObject>(
  service: Omit<Worker<N, S>, 'kind'>,
): Service {
  return { kind: 'worker', ...service } as unknown as Service
}
