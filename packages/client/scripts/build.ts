/** Makes `dist/`: the client as JavaScript that Node 20 runs, with its types. `npm run build` and `npm pack` call it. */

import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))
const compiler = findCompiler()

if (compiler) {
  rmSync(join(folder, 'dist'), { recursive: true, force: true })
  const { status } = spawnSync(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' })
  process.exitCode = status ?? 1
} else if (/^(pack|publish|run)/.test(process.env.npm_command ?? 'run')) {
  throw new Error('the client cannot be built: run `npm ci` first')
}
// Else npm installs or prunes with `--omit=dev`: an earlier build stays, and the platform itself runs the sources.

/** The compiler's path; null where what it needs is not installed. */
function findCompiler(): string | null {
  const require = createRequire(import.meta.url)
  try {
    require.resolve('@types/node/package.json')
    return join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  } catch {
    return null
  }
}
