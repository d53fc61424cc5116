/**
 * The bill of materials of a tarball (SBOM, in CycloneDX's JSON), made by npm from package-lock.json without a network. It lists the
 * packages that an installation brings on Node 24, in the versions that the tests ran with, and those whose code is inside.
 */

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { v5 } from 'uuid'
import { projectRoot, sourceFiles } from '../source-files.ts'
import { type Component, idOf } from './component.ts'
import { readByHand } from './licences.ts'
import { type Manifest, type ReleasePackage, textOf } from './packages.ts'

/** The parts of a bill that matter here. */
export interface Sbom {
  serialNumber: string
  metadata: { timestamp?: string; component: Component; [field: string]: unknown }
  components: Component[]
  [field: string]: unknown
}

/**
 * What users install does not follow the npm settings of whoever makes the release. Peers are not left out: npm would leave out
 * each dependency that another package names as its peer, too. The optional ones are not in the manifest that npm reads here.
 */
const settings = ['--offline', '--ignore-scripts', '--omit=dev', '--include=optional', '--include=peer']

/** Throws where package-lock.json does not hold all that the package needs. */
export function sbomOf({ manifest, builtFrom }: ReleasePackage): Sbom {
  const { name, version, description, license, dependencies, optionalDependencies } = manifest()
  const inside = insideOf(builtFrom, dependencies ?? {})
  const folder = mkdtempSync(join(tmpdir(), 'flotilla-sbom-'))
  try {
    const installed = {
      ...{ name, version, description, license, optionalDependencies },
      dependencies: { ...dependencies, ...inside },
      bundleDependencies: Object.keys(inside),
    }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(installed))
    copyFileSync(join(projectRoot, 'package-lock.json'), join(folder, 'package-lock.json'))
    npm(['install', '--package-lock-only'], folder, name)
    return JSON.parse(npm(['sbom', '--sbom-format=cyclonedx', '--package-lock-only'], folder, name))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Names the tarball and its checksum. Number and time follow from it: npm would take random ones. */
export function ofTarball(sbom: Sbom, name: string, sha256: string, time: string | null): Sbom {
  const { timestamp: _now, ...metadata } = sbom.metadata
  const component = {
    ...metadata.component,
    // npm takes the folder's.
    name,
    hashes: [{ alg: 'SHA-256', content: sha256 }],
  }
  return {
    ...sbom,
    serialNumber: `urn:uuid:${v5(`${name} ${sha256}`, v5.URL)}`,
    metadata: { ...(time === null ? {} : { timestamp: time }), ...metadata, component },
    components: sbom.components.map((one) => {
      const licence = readByHand[idOf(one)]
      return licence === undefined || one.licenses?.length
        ? one
        : { ...one, licenses: [{ license: { id: licence } }] }
    }),
  }
}

/** The packages that the builds of these folders hold, in the versions of the lock file. A build may leave out parts of them. */
function insideOf(folders: readonly string[], dependencies: Record<string, string>): Record<string, string> {
  const { packages } = JSON.parse(textOf('package-lock.json')) as { packages: Record<string, Manifest> }
  const names = new Set<string>()
  for (const file of sourceFiles()) {
    if (!folders.some((folder) => file.startsWith(`${folder}/src/`))) continue
    for (const [, name] of textOf(file).matchAll(importedPackage)) names.add(name!)
  }
  const outside = [...names].filter((name) => !(name in dependencies))
  return Object.fromEntries(
    outside.map((name) => {
      const locked = packages[`node_modules/${name}`]
      if (locked === undefined)
        throw new Error(`package-lock.json does not hold ${name}: run \`npm install\``)
      return [name, locked.version]
    }),
  )
}

/** The package's name in `import … from 'name/part'`, `import 'name/part'` and `export … from`, unless it is types alone. */
const importedPackage =
  /^(?:import|export) (?!type )(?:[^'"`;]*? from )?'(?!node:|#)((?:@[\w.-]+\/)?[\w-][\w.-]*)(?:\/[^']*)?'/gm

function npm(args: string[], cwd: string, name: string): string {
  const { status, stdout, stderr } = spawnSync('npm', [...args, ...settings], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  if (status === 0) return stdout
  const reason = stderr.trim().split('\n').slice(0, 3).join(' ')
  throw new Error(`package-lock.json does not hold all that ${name} needs: run \`npm install\` (${reason})`)
}
