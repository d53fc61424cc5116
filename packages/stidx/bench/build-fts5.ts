/** A process of its own that builds the peer's index: `<input> <output>`; prints what it took, without its own start. */

import { buildFts5 } from './fts5.ts'

const [input, output] = process.argv.slice(2) as [string, string]
const startedAt = performance.now()
const cpuAt = process.cpuUsage()
buildFts5(input, output)
const { user, system } = process.cpuUsage(cpuAt)
const wallMs = performance.now() - startedAt
process.stdout.write(JSON.stringify({ wallMs, cpuMs: (user + system) / 1000 }))
