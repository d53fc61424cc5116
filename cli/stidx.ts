/** What bin/stidx.cjs runs: the commands that read an index, bundled into bin/stidx-search.js. */

export { runCommand } from '#local-search/command/run.ts'
export { warmUp } from '#local-search/command/warm-up.ts'
