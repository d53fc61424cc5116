/** Starts a schema registry with Confluent's API (Apicurio, state in memory) on a free port. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, removeAtEnd, startChild, untilReady } from './children.ts'
import { installRegistry } from './install.ts'

export interface RunningServer {
  url: string
  close(): Promise<void>
}

/** A server that is a process of this machine. */
export interface LocalServer extends RunningServer {
  readonly pid: number
}

export async function openRegistry(): Promise<LocalServer> {
  const folder = await installRegistry()
  const logs = mkdtempSync(join(tmpdir(), 'fl-registry-'))
  removeAtEnd(logs)
  const port = await freePort()
  const settings = {
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': port,
    'quarkus.log.level': 'WARN',
    'apicurio.storage.kind': 'sql',
    'apicurio.storage.sql.kind': 'h2',
    'apicurio.datasource.url': `jdbc:h2:mem:registry_${port}`,
    'apicurio.ccompat.legacy-id-mode.enabled': 'false',
  }
  const args = [
    ...['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    ...Object.entries(settings).map(([name, value]) => `-D${name}=${value}`),
    ...['-jar', 'apicurio-registry-app-3.0.9-runner.jar'],
  ]
  const child = startChild('java', args, { logFile: join(logs, 'server.log'), cwd: folder })
  const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
  const answers = async () => (await fetch(`${url}/subjects`, { signal: AbortSignal.timeout(2_000) })).ok
  await untilReady('the schema registry', child, answers)
  return { url, pid: child.pid, close: () => child.kill('SIGKILL') }
}
