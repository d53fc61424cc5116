/** Fails when a file lies in an unknown folder, imports against the one direction, or is part of a circle of imports. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { boundaryFaults, circlesOf } from './boundaries.ts'
import { projectRoot, sourceFiles } from './source-files.ts'

const files = new Map(sourceFiles().map((file) => [file, readFileSync(join(projectRoot, file), 'utf8')]))
const faults = [...files].flatMap(([file, text]) => boundaryFaults(file, text))
for (const circle of circlesOf(files)) faults.push(`a circle of imports: ${circle.join(', ')}`)
for (const fault of faults) console.error(fault)
console.log(`${files.size} files, ${faults.length} faults of imports`)
process.exitCode = faults.length === 0 ? 0 : 1
