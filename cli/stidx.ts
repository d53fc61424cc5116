/** The process of the `stidx` command; bundled into bin/stidx.cjs, the one file that a search loads. */

import { createRequire } from 'node:module'
import { runCommand } from '#local-search/command/run.ts'

const args = process.argv.slice(2)

if (args[0] === 'index-jsonl') {
  // Building is another bundle: a search shall not load it.
  const { indexJsonl } = createRequire(import.meta.url)('./stidx-index.cjs') as {
    indexJsonl(args: readonly string[]): number
  }
  process.exit(indexJsonl(args.slice(1)))
}
process.exit(runCommand(args, process.env))
