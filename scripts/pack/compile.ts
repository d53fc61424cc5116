/** Compiles the platform's sources to JavaScript, one file for one. */

import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type Plugin, rolldown } from 'rolldown'
import { projectRoot } from '../source-files.ts'

/** Started by name. Threads and processes are found in the sources. */
const entries = ['cli/main.ts', 'cli/library.ts']

/** A file of its own that a thread or a process runs: `new URL('./writer-thread.ts', import.meta.url)`. */
const ownFile = /new URL\('(\.{1,2}\/[^']+)\.ts', import\.meta\.url\)/g

/**
 * Writes the compiled files below `folder`, at the places of their sources. Returns the names of the packages that they
 * import.
 */
export async function compile(folder: string): Promise<Set<string>> {
  const packages = new Set<string>()
  const build = await rolldown({
    input: entries.map((entry) => join(projectRoot, entry)),
    cwd: projectRoot,
    platform: 'node',
    tsconfig: false,
    external(id) {
      const isPackage = /^[^./#\0]/.test(id)
      if (isPackage && !id.startsWith('node:')) packages.add(packageOf(id))
      return isPackage
    },
    plugins: [ownFiles()],
    treeshake: false,
  })
  await build.write({
    dir: folder,
    format: 'esm',
    preserveModules: true,
    preserveModulesRoot: projectRoot,
    entryFileNames: '[name].js',
    sourcemap: true,
    // The source as if it were next to its .js file: the path from there to the clone would name folders of this machine.
    sourcemapPathTransform: (source) => basename(source),
  })
  await build.close()
  writeTypes(folder)
  return packages
}

/** The types of the library, which name no other file. */
function writeTypes(folder: string): void {
  const compiler = join(projectRoot, 'node_modules/typescript/bin/tsc')
  const args = [compiler, '-p', 'scripts/pack', '--outDir', folder]
  const { status } = spawnSync(process.execPath, args, { cwd: projectRoot, stdio: ['ignore', 2, 2] })
  rmSync(join(folder, 'cli/library-child.d.ts'), { force: true })
  if (status !== 0) throw new Error('the types of cli/library.ts could not be made')
}

/** `@scope/name/part` is of `@scope/name`. */
function packageOf(id: string): string {
  return id.split('/', id.startsWith('@') ? 2 : 1).join('/')
}

/** Compiles the files of threads and processes, too, and names them as they are called then. */
function ownFiles(): Plugin {
  return {
    name: 'own-files',
    async transform(code, path) {
      const files = [...code.matchAll(ownFile)]
      if (files.length === 0) return null
      for (const [, file] of files) {
        this.emitFile({ type: 'chunk', id: join(dirname(path), `${file}.ts`) })
      }
      // The length stays, and so do positions in the source map.
      return { code: code.replaceAll(ownFile, "new URL('$1.js', import.meta.url)"), map: null }
    },
  }
}
