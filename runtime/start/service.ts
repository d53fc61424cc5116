/**
 * What a service is: a name, the engines that it needs, a typed config, and one function that registers routes or
 * starts work. Services are values of these types; importing one runs nothing.
 */

import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Static, TObject } from 'typebox'
import type { OpenEngines } from '#engines/open.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Tracing } from '../observe/tracing/tracing.ts'
import type { Codec, Publisher, TopicLocation } from '../publish/messages.ts'

/** The engines by the names that services ask for. `localEmbedder` is the deterministic one, whatever is configured. */
export type Engines = OpenEngines

export type EngineName = keyof Engines

/** What a process offers to the services that run in it. */
export interface ServiceHost {
  /** Those that the services need; the others are absent. */
  engines: Engines
  log: Logger
  metrics: Registry
  publisher: Publisher
  codec: Codec
  /** Random per process; distinguishes instances in leases and groups. */
  instanceId: string
  /** Environment of the process: configs are read from it, and files of the operator may refer to it. Never printed. */
  env: Environment
  /** Where the topics live; the publisher reads it at every publish. */
  locations: Map<string, TopicLocation>
  tracing: Tracing
  /** What services of this process share: made for the first that asks for it, by what makes it. */
  shared<T>(make: () => T): T
  /** How long the close of a worker may let its work go on; to be asked when it begins. Absent: not at all. */
  drainMs?(): number
}

/** What a service gets: the host's parts, its own config and a logger with its name. */
export interface ServiceContext<N extends EngineName, C> extends Omit<ServiceHost, 'engines'> {
  engines: Pick<Engines, N>
  config: C
}

interface ServiceBase {
  name: string
  /** One sentence for --help and the docs. */
  purpose: string
  /** eventLog and schemaRegistry are always opened; name here what the service touches. */
  needs: readonly EngineName[]
  config: TObject
  /**
   * Throws AppError for files that the environment names and that cannot be used. Called before anything is opened.
   */
  check?(env: Environment): void
}

export interface Ingress extends ServiceBase {
  kind: 'ingress'
  address: ListenAddress | LoopbackAddress
  /** Bound of an address with its headers. Default 16 KiB. */
  headerBytesMax?: number
  /** Loads the code that runs the service, while the engines open, and begins what takes long and needs none of them. */
  load(env: Environment): Promise<Routes>
}

/** Registers the routes on an app that has the platform's errors, request ids and limits (runtime/http/app.ts). */
export type Routes = (app: FastifyInstance, host: ServiceHost) => Promise<Closeable>

interface ListenAddress {
  /** Key in addresses.json. */
  name: string
  /** Environment variable of the port. */
  portVariable: string
  /** Default port. */
  port: number
  /** Further keys of addresses.json that follow from its own URL. */
  further?(url: string, env: Environment): Record<string, string>
}

/**
 * An interface for callers on this machine alone: it binds 127.0.0.1 and, where there is IPv6, ::1, whatever HOST says,
 * and refuses other peers, Host headers and Origins.
 */
interface LoopbackAddress {
  name: string
  /** `host:port` or a URL; a host that is not the loopback stops the start. */
  loopbackVariable: string
  port: number
}

export interface Worker extends ServiceBase {
  kind: 'worker'
  /** Loads the code that runs the service, while the engines open. Without it, importing the service loads all of it. */
  load?(): Promise<unknown>
  /** How much longer than usual its close may take in a process of its own. */
  drainMs?(env: Environment): number
  /** Starts working; close drains calls in flight (the caller bounds the time). */
  start(host: ServiceHost): Promise<Closeable>
}

export type Service = Ingress | Worker

/** A service as its file writes it: config and engines are typed by what it asks for. */
type Typed<N extends EngineName, S extends TObject> = { needs: readonly N[]; config: S }

/** Registers the routes of an ingress. */
type RegisterRoutes<N extends EngineName, C> = (
  app: FastifyInstance,
  context: ServiceContext<N, C>,
) => Promise<Closeable>

type IngressDefinition<N extends EngineName, S extends TObject> = Typed<N, S> &
  Omit<Ingress, 'kind' | 'load' | 'needs' | 'config'> & {
    load(env: Environment): Promise<RegisterRoutes<N, Static<S>>>
  }

type WorkerDefinition<N extends EngineName, S extends TObject> = Typed<N, S> &
  Omit<Worker, 'kind' | 'start' | 'needs' | 'config'> & {
    start(context: ServiceContext<N, Static<S>>): Promise<Closeable>
  }

export function defineIngress<N extends EngineName, S extends TObject>(
  definition: IngressDefinition<N, S>,
): Ingress {
  return {
    ...definition,
    kind: 'ingress',
    async load(env) {
      const register = await definition.load(env)
      return async (app, host) => register(app, contextOf(definition, host))
    },
  }
}

export function defineWorker<N extends EngineName, S extends TObject>(
  definition: WorkerDefinition<N, S>,
): Worker {
  return {
    ...definition,
    kind: 'worker',
    start: async (host) => definition.start(contextOf(definition, host)),
  }
}

/** Throws AppError `invalid_configuration`. */
function contextOf<N extends EngineName, S extends TObject>(
  definition: Typed<N, S> & { name: string },
  host: ServiceHost,
): ServiceContext<N, Static<S>> {
  const { engines, metrics, publisher, codec, instanceId, env, locations, tracing, shared, drainMs } = host
  return {
    engines,
    config: loadConfig(definition.config, env),
    log: host.log.child({ service: definition.name }),
    metrics,
    publisher,
    codec,
    instanceId,
    env,
    locations,
    tracing,
    shared,
    ...(drainMs === undefined ? {} : { drainMs }),
  }
}
