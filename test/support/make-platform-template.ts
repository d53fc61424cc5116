/** Starts a platform on embedded engines in the folder that is named, and stops it: see platform-template.ts. */

import { pino } from 'pino'
import { startPlatform } from '#runtime/start.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { layMirrorCluster } from './mirror.ts'

const home = process.argv[2] as string
await layMirrorCluster(home)
const running = await startPlatform({
  migrations: migrationFolders,
  services: services.filter(({ name }) => !['relational-writer', 'reference-nodes'].includes(name)),
  chosen: [],
  env: {
    FLOTILLA_HOME: home,
    VECTOR_GATEWAY_PORT: '0',
    MAIN_API_PORT: '0',
    HUB_PORT: '0',
    RUN_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
    OPS_PORT: '0',
  },
  log: pino({ level: 'silent' }),
  print() {},
  control: () => async () => null,
})
await running.close()
