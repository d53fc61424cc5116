/** Makes `dist/`: the client as JavaScript that Node 20 runs, with its types. `npm ci` and `npm pack` call it. */

import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))
const compiler = findCompiler()

if (compiler) {
  rmSync(join(folder, 'dist'), { recursive: true, force: true })
  const { status } = spawnSync(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' })
  process.exitCode = status ?? 1
} else if (process.env.npm_command === 'ci' || process.env.npm_command === 'install') {
  // Installed for use only (`--omit=dev`): the platform itself runs the sources.
  console.error('the client is not built: its development dependencies are not installed')
} else {
  throw new Error('the client cannot be built: run `npm ci` first')
}

function findCompiler(): string | null {
  try {
    const found = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')
    return existsSync(found) ? found : null
  } catch {
    return null
  }
}
