/** A gateway whose engines can be taken away one by one; the rest of the platform is real and embedded. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import pino from 'pino'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { migrationFolders } from '#services/migrations.ts'
import { vectorGateway } from '#services/vectors/gateway/service.ts'
import { layMirrorCluster } from './mirror.ts'
import { copyCluster } from './relational.ts'

type Part = 'log' | 'vectors' | 'relational' | 'mirror'

export interface AwayGateway {
  url: string
  platform: Platform
  away: Set<Part>
  provision(agentId: string): Promise<string>
  close(): Promise<void>
}

const codes: Record<Part, ErrorCode> = {
  log: 'log_unavailable',
  vectors: 'vector_engine_unavailable',
  relational: 'relational_engine_unavailable',
  mirror: 'relational_engine_unavailable',
}
/** How long a driver tries before it reports that its engine is away. */
const givesUpAfterMs = 300

export async function openAwayGateway(): Promise<AwayGateway> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  await copyCluster(home)
  await layMirrorCluster(home)
  const log = pino({ level: 'silent' })
  const env = { FLOTILLA_HOME: home }
  const platform = await openPlatform({
    migrations: migrationFolders,
    env,
    needs: ['vectors', 'mirror', 'embedder'],
    producerName: 'test',
    log,
    lock: true,
  })
  const away = new Set<Part>()
  const app: FastifyInstance = createHttpApp({ name: 'vector-gateway', log, metrics: platform.metrics })
  const routes = await vectorGateway.load(platform.env)
  const resources = await routes(app, {
    ...platform,
    publisher: breakable(platform.publisher, 'log', away, ['publish']),
    engines: {
      ...platform.engines,
      vectors: breakable(platform.engines.vectors, 'vectors', away),
      relational: breakable(platform.engines.relational, 'relational', away),
      mirror: breakable(platform.engines.mirror, 'mirror', away),
      eventLog: withStaleTails(breakable(platform.engines.eventLog, 'log', away, ['ping']), away),
    },
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    url,
    platform,
    away,
    async provision(agentId) {
      return (await provisionAgent(platform.engines.relational, { agentId, tier: 'infra-architect' }))
        .privateKeyPem
    },
    async close() {
      away.clear()
      await app.close()
      await resources.close()
      await platform.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Every method (or those named) fails slowly while the part is away. */
function breakable<T extends object>(target: T, part: Part, away: Set<Part>, only?: string[]): T {
  return new Proxy(target, {
    get(object, name) {
      const value = Reflect.get(object, name) as unknown
      if (typeof value !== 'function' || (only && !only.includes(String(name)))) return value
      return async (...args: unknown[]) => {
        if (!away.has(part)) return value.apply(object, args)
        await new Promise((resolve) => setTimeout(resolve, givesUpAfterMs))
        throw new AppError(codes[part], 'connect ECONNREFUSED 10.1.2.3')
      }
    },
  })
}

function withStaleTails(eventLog: Platform['engines']['eventLog'], away: Set<Part>) {
  return new Proxy(eventLog, {
    get(object, name) {
      if (name !== 'tail') return Reflect.get(object, name) as unknown
      return async (...args: Parameters<typeof object.tail>) => {
        const tail = await object.tail(...args)
        const reached = () => !away.has('log')
        return {
          ...tail,
          current: () => reached() && tail.current(),
          caughtUp: async () => reached() && (await tail.caughtUp()),
        }
      }
    },
  })
}
