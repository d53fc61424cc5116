/** Builds one index in a process of its own and prints what it took: `ours|fts5 <input> <output>`. */

import { createRequire } from 'node:module'
import { buildFts5 } from './fts5.ts'

const [kind, input, output] = process.argv.slice(2) as [string, string, string]
const startedAt = performance.now()
const cpuAt = process.cpuUsage()
if (kind === 'ours') {
  // The command as it is shipped, its limits of memory included.
  const { indexJsonl } = createRequire(import.meta.url)('../../bin/stidx-index.cjs') as {
    indexJsonl(args: string[]): Promise<number>
  }
  const code = await indexJsonl(['--input', input, '--output', output])
  if (code !== 0) process.exit(code)
} else {
  buildFts5(input, output)
}
const cpu = process.cpuUsage(cpuAt)
const result = {
  wallMs: performance.now() - startedAt,
  cpuMs: (cpu.user + cpu.system) / 1000,
  rssBytesMax: process.resourceUsage().maxRSS * 1024,
}
process.stdout.write(JSON.stringify(result))
