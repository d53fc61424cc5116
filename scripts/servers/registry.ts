/** Starts a schema registry with Confluent's API (Apicurio, state in memory or in files) on a free port. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, removeAtEnd, type ServerChild, startChild, untilReady } from './children.ts'
import { installRegistry } from './install.ts'

export interface RunningServer {
  url: string
  close(): Promise<void>
}

/** A server that is a process of this machine. */
export interface LocalServer extends RunningServer {
  readonly pid: number
}

interface RunningRegistry extends LocalServer {
  kill9(): Promise<void>
  /** Resolves when it serves again, on the same port; with `kept` what it held. */
  start(): Promise<void>
}

/** `kept`: in files, which a killed one finds again when it is started. */
export async function openRegistry({ kept = false }: { kept?: boolean } = {}): Promise<RunningRegistry> {
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
    'apicurio.datasource.url': `jdbc:h2:${kept ? `file:${join(logs, 'registry')}` : `mem:registry_${port}`}`,
    'apicurio.ccompat.legacy-id-mode.enabled': 'false',
  }
  const args = [
    ...['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    ...Object.entries(settings).map(([name, value]) => `-D${name}=${value}`),
    ...['-jar', 'apicurio-registry-app-3.0.9-runner.jar'],
  ]
  const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
  const answers = async () => (await fetch(`${url}/subjects`, { signal: AbortSignal.timeout(2_000) })).ok
  let child: ServerChild
  async function start(): Promise<void> {
    child = startChild('java', args, { logFile: join(logs, 'server.log'), cwd: folder })
    await untilReady('the schema registry', child, answers)
  }
  await start()
  const kill9 = () => child.kill('SIGKILL')
  return {
    url,
    get pid() {
      return child.pid
    },
    start,
    kill9,
    close: kill9,
  }
}
