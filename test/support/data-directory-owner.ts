/** A process of its own that takes the data directory named by its argument, says so, and keeps it. */

import { openDataDirectory } from '#lib/data-directory.ts'

await openDataDirectory(process.argv[2] as string)
process.stdout.write('taken\n')
setInterval(() => {}, 60_000)
