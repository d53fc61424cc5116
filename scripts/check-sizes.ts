/** Fails when a file or a function is longer than the house rules allow. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Exceptions, sizeFaults } from './sizes.ts'
import { projectRoot, sourceFiles } from './source-files.ts'

const files = sourceFiles()
const exceptions = JSON.parse(
  readFileSync(new URL('size-exceptions.json', import.meta.url), 'utf8'),
) as Exceptions
const faults = files.flatMap((file) =>
  sizeFaults(file, readFileSync(join(projectRoot, file), 'utf8'), exceptions),
)
for (const entry of Object.keys(exceptions)) {
  if (!files.includes(entry.split(' ')[0]!)) faults.push(`${entry}: the file of this exception is gone`)
}
for (const fault of faults) console.error(fault)
console.log(`${files.length} files, ${faults.length} over the limits`)
process.exitCode = faults.length === 0 ? 0 : 1
