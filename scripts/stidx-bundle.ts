/**
 * The checked-in artefacts of local search, made from their sources: the kernel's bytes from its WebAssembly text, and
 * the `stidx` command as one file of plain JavaScript, which any Node from 20 on starts without a loader. With --check it
 * only says whether they are what the sources make.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import openWabt from 'wabt'
import { projectRoot } from './source-files.ts'

const isCheck = process.argv.includes('--check')

await keep('local-search/kernel/kernel-bytes.ts', await kernelModule())
for (const [file, entry] of [
  ['bin/stidx.cjs', 'cli/stidx.ts'],
  ['bin/stidx-index.cjs', 'cli/stidx-index.ts'],
] as const) {
  if (existsSync(join(projectRoot, entry))) await keep(file, await bundle(entry, file))
}

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

async function bundle(entry: string, file: string): Promise<string> {
  const build = await rolldown({
    input: join(projectRoot, entry),
    platform: 'node',
    external: [/^node:/],
    tsconfig: false,
  })
  const { output } = await build.generate({
    format: 'cjs',
    minify: true,
    banner: `#!/usr/bin/env node\n// Made from ${entry} by scripts/stidx-bundle.ts; not to be edited.`,
  })
  await build.close()
  if (output.length !== 1) throw new Error(`${file} would be ${output.length} files`)
  return output[0].code
}
