/** Starts a platform on embedded engines in the folder that is named, and stops it: see platform-template.ts. */

import { pino } from 'pino'
import { startPlatform } from '#runtime/start/start.ts'
import { migrationFolders } from '#services/migrations.ts'
import { anyPorts } from './any-ports.ts'
import { servicesOf } from './gateway-platform.ts'
import { layMirrorCluster } from './mirror.ts'

const home = process.argv[2] as string
await layMirrorCluster(home)
const running = await startPlatform({
  migrations: migrationFolders,
  services: servicesOf(),
  chosen: [],
  env: { FLOTILLA_HOME: home, ...anyPorts },
  log: pino({ level: 'silent' }),
  print() {},
  control: () => async () => null,
})
await running.close()
// Timers of the last calls may go on for seconds.
process.exit()
