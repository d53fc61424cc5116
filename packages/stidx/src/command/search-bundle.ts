/** The entry of dist/stidx-search.js, which bin/stidx.cjs runs: the commands that read an index. */

export { runCommand } from './run.ts'
export { warmUp } from './warm-up.ts'
