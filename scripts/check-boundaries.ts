/** Fails when an import goes against the one direction cli → services → runtime → engines | topics → lib. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { boundaryFaults } from './boundaries.ts'
import { projectRoot, sourceFiles } from './source-files.ts'

const files = sourceFiles()
const faults = files.flatMap((file) => boundaryFaults(file, readFileSync(join(projectRoot, file), 'utf8')))
for (const fault of faults) console.error(fault)
console.log(`${files.length} files, ${faults.length} imports against the direction`)
process.exitCode = faults.length === 0 ? 0 : 1
