/**
 * The checked-in artefacts of local search, made from their sources: the kernel's bytes from its WebAssembly text, and
 * the `stidx` command as plain JavaScript, one file for searching and one for indexing, which any Node from 20 on runs.
 * With --check it only says whether they are what the sources make.
 */

import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import openWabt from 'wabt'
import { projectRoot } from './source-files.ts'

const isCheck = process.argv.includes('--check')

await keep('local-search/kernel/kernel-bytes.ts', await kernelModule())
await keep('bin/stidx-index.cjs', await bundle('cli/stidx-index.ts'))
await keep('bin/stidx-search.js', asFunction(await bundle('cli/stidx.ts')))

async function keep(file: string, content: string): Promise<void> {
  const path = join(projectRoot, file)
  const before = existsSync(path) ? readFileSync(path, 'utf8') : null
  if (before === content) return
  if (!isCheck) return writeFileSync(path, content)
  console.error(`${file} is not what its sources make: run \`npm run stidx:bundle\` and commit.`)
  process.exitCode = 1
}

async function kernelModule(): Promise<string> {
  const file = 'local-search/kernel/kernel.wat'
  const wabt = await openWabt()
  const parsed = wabt.parseWat(file, readFileSync(join(projectRoot, file), 'utf8'), { bulk_memory: true })
  parsed.validate()
  const bytes = Buffer.from(parsed.toBinary({}).buffer)
  return (
    '/** Made from kernel.wat by scripts/stidx-bundle.ts: the WebAssembly of a search, in base64. */\n\n' +
    `export const kernelBytes =\n  '${bytes.toString('base64')}'\n`
  )
}

/** A function that bin/stidx.cjs compiles and calls; the hash in its first line names the compiled form that is kept. */
function asFunction(code: string): string {
  const wrapped = `(function (require) { const exports = {};${asAscii(code)}\nreturn exports })\n`
  return `// ${createHash('sha256').update(wrapped).digest('hex').slice(0, 16)}\n${wrapped}`
}

/** One byte a character is read fastest. Other characters stand in strings and patterns only, where escapes may stand. */
function asAscii(code: string): string {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

async function bundle(entry: string): Promise<string> {
  const build = await rolldown({
    input: join(projectRoot, entry),
    platform: 'node',
    external: [/^node:/],
    tsconfig: false,
  })
  const { output } = await build.generate({
    format: 'cjs',
    minify: true,
  })
  await build.close()
  if (output.length !== 1) throw new Error(`${entry} would be ${output.length} files`)
  return output[0].code
}
