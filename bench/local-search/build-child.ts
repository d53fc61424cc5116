/** Builds one index in a process of its own and prints what it took: `ours|fts5 <input> <output>`. */

import { buildIndex } from '../../local-search/build.ts'
import { buildFts5 } from './fts5.ts'

const [kind, input, output] = process.argv.slice(2) as [string, string, string]
const startedAt = performance.now()
const cpuAt = process.cpuUsage()
if (kind === 'ours') buildIndex({ input, output })
else buildFts5(input, output)
const cpu = process.cpuUsage(cpuAt)
const result = {
  wallMs: performance.now() - startedAt,
  cpuMs: (cpu.user + cpu.system) / 1000,
  rssBytesMax: process.resourceUsage().maxRSS * 1024,
}
process.stdout.write(JSON.stringify(result))
