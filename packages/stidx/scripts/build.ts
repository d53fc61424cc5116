/**
 * Makes `dist/`: the command as two files of plain JavaScript (one for searching, one for indexing) and the library with
 * its types, all for Node 20. `npm run build` and `npm pack` call it.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))
const dist = join(folder, 'dist')

if (hasTools()) {
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(dist)
  writeFileSync(join(dist, 'stidx-index.cjs'), await bundle('src/command/index-jsonl.ts'))
  writeFileSync(join(dist, 'stidx-search.js'), asFunction(await bundle('src/command/search-bundle.ts')))
  compileLibrary()
} else if (/^(pack|publish|run)/.test(process.env.npm_command ?? 'run')) {
  throw new Error('stidx cannot be built: run `npm ci` first')
}
// Else npm installs or prunes with `--omit=dev`: an earlier build stays, and the platform itself runs the sources.

function hasTools(): boolean {
  const require = createRequire(import.meta.url)
  return ['rolldown', 'typescript', '@types/node', 'cli-progress'].every((name) => {
    try {
      return require.resolve(`${name}/package.json`) !== ''
    } catch {
      return false
    }
  })
}

/** A function that bin/stidx.cjs compiles and calls; the hash in its first line names the compiled form that is kept. */
function asFunction(code: string): string {
  const wrapped = `(function (require) { const exports = {};${asAscii(code)}\nreturn exports })\n`
  return `// ${createHash('sha256').update(wrapped).digest('hex').slice(0, 16)}\n${wrapped}`
}

/** One byte a character is read fastest. Other characters occur in strings and patterns only, where escapes are allowed. */
function asAscii(code: string): string {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

async function bundle(entry: string): Promise<string> {
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    input: join(folder, entry),
    platform: 'node',
    external: [/^node:/],
    tsconfig: false,
  })
  const { output } = await build.generate({ format: 'cjs', minify: true })
  await build.close()
  if (output.length !== 1) throw new Error(`${entry} would be ${output.length} files`)
  return output[0].code
}

function compileLibrary(): void {
  const require = createRequire(import.meta.url)
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  const { status } = spawnSync(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' })
  process.exitCode = status ?? 1
}
