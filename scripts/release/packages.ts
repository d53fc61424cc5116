/** What a release holds. A package that joins it is one more entry of this list. */

import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { packedManifest } from '../pack/manifest.ts'
import { packFolder } from '../pack/npm-pack.ts'
import { runScript } from '../run-script.ts'
import { projectRoot } from '../source-files.ts'

export interface Manifest {
  name: string
  version: string
  description?: string
  license?: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

export interface ReleasePackage {
  /** What npm reads of it where it is installed. */
  manifest(): Manifest
  /** Folders whose builds are inside the tarball, together with the code of the packages that they import. */
  builtFrom: readonly string[]
  /** Writes the tarball of the present builds into the folder, and returns its path. */
  pack(out: string): string
  /** What a person types to publish the tarball. */
  publish(tarball: string): string
}

export const releasePackages: readonly ReleasePackage[] = [
  {
    manifest: () => packedManifest(JSON.parse(textOf('package.json')), []),
    builtFrom: ['console', 'packages/stidx', 'packages/client'],
    pack: packPlatform,
    publish: (tarball) => `npm publish ${tarball}`,
  },
  workspace('packages/client'),
  workspace('packages/stidx'),
]

/** The text of a file of the project. */
export function textOf(file: string): string {
  return readFileSync(join(projectRoot, file), 'utf8')
}

/** Makes all builds again: those that lie there may be somebody's try. */
export function buildAll(): void {
  runScript(['scripts/build.js'])
}

function packPlatform(out: string): string {
  return runScript(['scripts/pack.ts', '--out', out]).trim().split('\n').at(-1)!
}

function workspace(folder: string): ReleasePackage {
  return {
    manifest: () => JSON.parse(textOf(`${folder}/package.json`)),
    builtFrom: [folder],
    pack(out) {
      const stage = mkdtempSync(join(tmpdir(), 'flotilla-package-'))
      try {
        const filter = (path: string) => basename(path) !== 'node_modules'
        cpSync(join(projectRoot, folder), stage, { recursive: true, filter })
        return packFolder(stage, out)
      } finally {
        rmSync(stage, { recursive: true, force: true })
      }
    },
    // npm takes a name with a scope for private otherwise.
    publish: (tarball) => `npm publish --access public ${tarball}`,
  }
}
