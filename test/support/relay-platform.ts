/** Webhook relays on one set of engines in this process, with a targets file of their own, for flow tests. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { Platform } from '#runtime/start/platform.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { migrationFolders } from '#services/migrations.ts'
import { outboxPublisher } from '#services/outbox/publisher/service.ts'
import { webhookRelay } from '#services/webhooks/fire/service.ts'
import { type Answer, call } from './gateway-call.ts'

export interface RelayPlatform {
  url: string
  platform: Platform
  targetsFile: string
  /** Everything that was logged. */
  lines: string[]
  writeTargets(yaml: string): void
  fire(event: unknown, query?: string): Promise<Answer>
  get(path: string): Promise<Answer>
  close(): Promise<void>
}

export interface RelayPlatformOptions {
  targets?: string
  env?: Record<string, string>
}

export async function openRelayPlatform({
  targets,
  env = {},
}: RelayPlatformOptions = {}): Promise<RelayPlatform> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const targetsFile = join(home, 'targets.yaml')
  if (targets !== undefined) writeFileSync(targetsFile, targets)
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) })
  const running = await startPlatform({
    migrations: migrationFolders,
    services: [webhookRelay, outboxPublisher],
    chosen: [],
    env: { FLOTILLA_HOME: home, WEBHOOK_GATEWAY: '127.0.0.1:0', OPS_PORT: '0', ...env },
    log,
    print() {},
    control: () => async () => null,
  }).catch((error: unknown) => {
    rmSync(home, { recursive: true, force: true })
    throw error
  })
  const url = running.addresses.webhook_url as string
  return {
    url,
    platform: running.platform,
    targetsFile,
    lines,
    writeTargets: (yaml) => writeFileSync(targetsFile, yaml),
    fire: (event, query = '') => call(url, `/api/v1/webhooks/fire${query}`, { body: event }),
    get: (path) => call(url, path),
    async close() {
      await running.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}
