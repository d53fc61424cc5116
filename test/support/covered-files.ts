/**
 * Counts our files in which a function ran for one request, by V8's precise coverage. Run as a program (a platform of its
 * own, nothing else in the process) it upserts a point in the folder that is named and prints the files whose functions were
 * called more often in each of five spells with an upsert than in the median of five without: so timers do not count.
 */

import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { pino } from 'pino'
import { createClient } from '#client/client.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { provisionAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { anyPorts } from './any-ports.ts'
import { axisVector } from './points.ts'

const home = process.argv[2] as string
const root = pathToFileURL(`${join(import.meta.dirname, '../..')}/`).href
const requests = 5
/** Longer than the audit-writer gathers. */
const secondsMs = 2_700

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
const running = await startPlatform({
  migrations: migrationFolders,
  services,
  chosen: [],
  env: { FLOTILLA_HOME: home, ...anyPorts },
  log: pino({ level: 'silent' }),
  print() {},
  control: () => async () => null,
})
const { relational } = running.platform.engines
const agent = await provisionAgent(relational, { agentId: 'scout', tier: 'infra-architect' })
await waitUntilPublished(relational, agent.outboxId)
const privateKeyFile = join(home, 'scout.pem')
writeFileSync(privateKeyFile, agent.privateKeyPem, { mode: 0o600 })
const client = createClient({
  vectorUrl: running.addresses.vector_url as string,
  agentId: 'scout',
  privateKeyFile,
})
await upsert(0)

const idle: Map<string, number>[] = []
const busy: Map<string, number>[] = []
for (let n = 1; n <= requests; n++) {
  idle.push(await callsDuring(async () => {}))
  busy.push(await callsDuring(() => upsert(n)))
}
const files = [...busy[0]!.keys()].filter(
  (file) => sorted(busy, file)[0]! > sorted(idle, file)[(requests - 1) / 2]!,
)
process.stdout.write(JSON.stringify(files.sort()))
await client.close()
await running.close()
process.exit()

async function upsert(n: number): Promise<void> {
  const point = { id: `p${n}`, vector: [...axisVector(n)], payload: { n } }
  await client.upsert('knowledgebase', [point], { wait: true })
}

function sorted(seconds: Map<string, number>[], file: string): number[] {
  return seconds.map((counted) => counted.get(file) ?? 0).sort((a, b) => a - b)
}

/** How often functions of each of our files were called during the work and the seconds after it: notes, the mirror. */
async function callsDuring(work: () => Promise<void>): Promise<Map<string, number>> {
  await session.post('Profiler.takePreciseCoverage')
  await work()
  await pause(secondsMs)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const calls = new Map<string, number>()
  for (const { url, functions } of result) {
    if (!url.startsWith(root) || /\/(node_modules|test)\//.test(url)) continue
    // The module itself, which begins at 0, runs when it is imported.
    const counts = functions.map(({ ranges: [range] }) => (range!.startOffset > 0 ? range!.count : 0))
    calls.set(
      url.slice(root.length),
      counts.reduce((sum, count) => sum + count, 0),
    )
  }
  return calls
}
