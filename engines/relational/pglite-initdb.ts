/** Makes an empty cluster in the folder that its argument names. It runs as a process of its own. */

import { PGlite } from '@electric-sql/pglite'

// Its input ends when whoever waits for it does.
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL')).resume()
// Its log is kept in files of 1 MB; by default the first alone takes 16.
const db = await PGlite.create(process.argv[2]!, { initDbStartParams: ['--wal-segsize=1'] })
await db.close()
process.exit(0)
