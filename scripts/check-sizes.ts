/** Fails when a file or a function is longer than the house rules allow. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sizeFaults } from './sizes.ts'
import { projectRoot, sourceFiles } from './source-files.ts'

const files = sourceFiles()
const faults = files.flatMap((file) => sizeFaults(file, readFileSync(join(projectRoot, file), 'utf8')))
for (const fault of faults) console.error(fault)
console.log(`${files.length} files, ${faults.length} over the limits`)
process.exitCode = faults.length === 0 ? 0 : 1
