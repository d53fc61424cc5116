/** The process of the `stidx` command; bundled into bin/stidx.cjs, the one file that a search loads. */

import { runCommand } from '#local-search/command/run.ts'

interface Indexer {
  indexJsonl(args: readonly string[]): number
}

/** Building is another bundle beside that one: a search shall not load it. */
const indexerBundle: string = './stidx-index.cjs'

const args = process.argv.slice(2)

if (args[0] === 'index-jsonl') {
  import(indexerBundle).then((indexer: Indexer) => process.exit(indexer.indexJsonl(args.slice(1))))
} else {
  process.exit(runCommand(args, process.env))
}
