/** Makes an empty cluster in the folder that its argument names. It runs as a process of its own. */

import { PGlite } from '@electric-sql/pglite'
import { clusterOptions } from './pglite-options.ts'

// Its input ends when whoever waits for it does.
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL')).resume()
const db = await PGlite.create(process.argv[2]!, clusterOptions)
await db.close()
process.exit(0)
