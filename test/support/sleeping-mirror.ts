/** Services whose mirror sleeps after moments; run as a program (`start NAMES…`) it is a process of such services. */

import { pino } from 'pino'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import type { Service } from '#runtime/start/service.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { defineVectorGateway } from '#services/vectors/gateway/service.ts'
import { defineRelationalWriter } from '#services/vectors/relational/service.ts'
import type { SleepLimits } from '#services/vectors/relational/settings.ts'

/** It writes nothing by itself while it sleeps: a test lowers the last two. */
export const shortSleep = (): SleepLimits => ({
  sleepAfterMs: 1_000,
  noteEveryMs: 200,
  lookMs: 100,
  takeEveryMs: 3_600_000,
  pendingMax: 1_000_000,
})

/** The service, with these limits where it has to do with the mirror. */
export function withSleep(limits: SleepLimits): (service: Service) => Service {
  const made = [defineVectorGateway(limits), defineRelationalWriter(limits)]
  return (service) => made.find(({ name }) => name === service.name) ?? service
}

if (process.argv[1] === import.meta.filename) {
  const chosen = process.argv.slice(3)
  const level = process.env.LOG_LEVEL ?? 'info'
  await startPlatform({
    migrations: migrationFolders,
    services: services.filter(({ name }) => chosen.includes(name)).map(withSleep(shortSleep())),
    chosen,
    env: process.env,
    log: pino({ level }),
    print() {},
    control: createControlHandler(operations),
  })
  process.stdout.write('ready\n')
}
