/** What bin/stidx.cjs runs: the commands that read an index, bundled into bin/stidx-search.js. */

export { runCommand } from './run.ts'
export { warmUp } from './warm-up.ts'
