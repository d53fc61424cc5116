/** The process under measurement: all services embedded, and on another port the bare routes over the same engines. */

import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Fastify from 'fastify'
import { pino } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { readLag } from '#operations/lag.ts'
import { createOutboxBell } from '#runtime/notices.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { type NewAgent, provisionAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { createNote, type NewNote } from '#services/records/notes/notes.ts'

const home = process.argv[2]!
const agentId = 'bench'

/** Services that the bench does without. */
const without = process.argv.slice(3)

const running = await startPlatform({
  migrations: migrationFolders,
  services: services.filter((service) => !without.includes(service.name)),
  chosen: [],
  env: {
    FLOTILLA_HOME: home,
    VECTOR_GATEWAY_PORT: '0',
    MAIN_API_PORT: '0',
    HUB_PORT: '0',
    RUN_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
    HOST: '127.0.0.1',
    ...(process.env.RUN_NODES_FILE ? { RUN_NODES_FILE: process.env.RUN_NODES_FILE } : {}),
  },
  log: pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2)),
  print: () => {},
  control: () => async () => {},
})
const { relational, vectors } = running.platform.engines
const meteredAgentId = 'metered'
const privateKeyFile = await provision({ agentId, tier: 'infra-architect' })
/** A caller may have ten runs open: a bench of runs needs several. */
const callerIds = Array.from({ length: Number(process.env.BENCH_CALLERS ?? 0) }, (_, n) => `caller-${n}`)
const callerKeyFiles: string[] = []
for (const id of callerIds) callerKeyFiles.push(await provision({ agentId: id, tier: 'infra-architect' }))
const meteredKeyFile = await provision({ agentId: meteredAgentId, tier: 'research-agent' })

process.on('message', async (message: { kind: string; group: string }) => {
  if (message.kind === 'notes') {
    const filter = { must: [{ key: 'tags', match: { value: 'auth' } }] }
    process.send!({ kind: 'notes', notes: await vectors.count('fleet_notes', filter) })
  }
  if (message.kind !== 'lag') return
  const groups = await readLag(running.platform)
  process.send!({ kind: 'lag', lag: groups.find((group) => group.group === message.group)?.lag ?? 0 })
})
/** Also when the bench was killed: nothing of a run may stay behind. */
async function stop(): Promise<void> {
  await floor.close()
  await running.close()
  process.exit(0)
}
process.once('SIGTERM', stop)
process.once('disconnect', stop)

const floor = createFloor(vectors, relational)
await floor.listen({ host: '127.0.0.1', port: 0 })
process.send!({
  kind: 'serving',
  vectorUrl: running.addresses.vector_url,
  hubUrl: running.addresses.hub_url,
  runUrl: running.addresses.agent_gateway_url,
  callers: callerIds.map((id, n) => ({ agentId: id, privateKeyFile: callerKeyFiles[n]! })),
  floorUrl: `http://127.0.0.1:${(floor.server.address() as AddressInfo).port}`,
  privateKeyFile,
  agentId,
  meteredKeyFile,
  meteredAgentId,
})

/** The file of its private key. */
async function provision(agent: NewAgent): Promise<string> {
  const { privateKeyPem, outboxId } = await provisionAgent(relational, agent)
  await waitUntilPublished(relational, outboxId)
  const file = join(home, `${agent.agentId}.pem`)
  writeFileSync(file, privateKeyPem, { mode: 0o600 })
  return file
}

interface FloorPoint {
  id: string
  vector: number[]
  payload: Record<string, never>
}

/** Parses, calls the engine, answers: no authentication, validation, log or audit. */
function createFloor(store: VectorStore, database: Relational) {
  let upserted = 0
  const bell = createOutboxBell({ relational: database, log: pino({ level: 'silent' }) })
  const app = Fastify({ bodyLimit: 64 * 2 ** 20 })
  app.post<{ Body: { collection: string; vector: number[]; limit: number } }>('/search', async ({ body }) => {
    const begun = performance.now()
    const found = await store.search(body.collection, {
      vector: Float32Array.from(body.vector),
      limit: body.limit,
    })
    return {
      results: found.hits,
      took_ms: Math.round(performance.now() - begun),
      records_scanned: found.eligible,
    }
  })
  app.post<{ Body: { collection: string; points: FloorPoint[] } }>('/upsert', async ({ body }) => {
    const operations = body.points.map(
      (point): PointOperation => ({
        kind: 'upsert',
        // Points of its own: those that came through the log hold positions of the log.
        id: `bare-${point.id}`,
        position: { epoch: 1, offset: upserted++ },
        vector: Float32Array.from(point.vector),
        payload: point.payload,
      }),
    )
    await store.apply(body.collection, operations)
    return { status: 'applied' }
  })
  app.post<{ Body: NewNote }>('/note', async ({ body }, reply) => {
    const note = await createNote(database, body, { name: 'bench', uid: 'bench', isAdmin: false })
    bell.ring()
    return reply.code(201).send(note)
  })
  app.get('/waiting', async () => {
    const { rows } = await database.query<{ waiting: number }>(
      'select count(*) as waiting from platform.outbox',
    )
    return String(rows[0]!.waiting)
  })
  app.post('/settled', async (_, reply) => {
    const stats = await store.stats()
    const settled = stats.every(
      (one) => one.status === 'ready' && (one.points < 10_000 || one.indexedShare > 0.99),
    )
    // No 503: who asks does not want to wait.
    return reply.code(settled ? 200 : 409).send({ settled })
  })
  return app
}
