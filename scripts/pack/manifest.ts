/** The package.json of the package, made from that of the clone. */

/** The parts of a package.json that matter here. */
interface Manifest {
  name: string
  version: string
  exports: Record<string, unknown>
  [field: string]: unknown
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
  peerDependencies: Record<string, string>
}

/** Fields that a clone alone needs. */
const left = ['private', 'workspaces', 'scripts', 'devDependencies', 'imports']
const library = { types: './cli/library.d.ts', default: './cli/library.js' }
const pinnedNode = /^node-(bin-)?(linux|darwin|win)-/

/**
 * The pinned Node is an optional peer: where the user's Node is too old, the launcher fetches it in the version that is
 * named here. Throws for a package that the platform imports and that would not be installed.
 */
export function packedManifest(clone: Manifest, imported: Iterable<string>): Manifest {
  const { optionalDependencies: optional, ...packed } = structuredClone(clone)
  for (const field of left) delete packed[field]
  const isNode = (name: string) => pinnedNode.test(name)
  const peers = { ...packed.peerDependencies, ...pick(optional, isNode) }
  const manifest: Manifest = {
    ...packed,
    exports: { ...packed.exports, '.': library },
    // For compilers that do not read exports.
    types: library.types,
    optionalDependencies: pick(optional, (name) => !isNode(name)),
    peerDependencies: peers,
    peerDependenciesMeta: Object.fromEntries(Object.keys(peers).map((name) => [name, { optional: true }])),
  }
  const declared = new Set(
    [manifest.dependencies, manifest.optionalDependencies, peers].flatMap((field) => Object.keys(field)),
  )
  const missing = [...imported].filter((name) => !declared.has(name))
  if (missing.length > 0) throw new Error(`Not among the dependencies in package.json: ${missing.join(', ')}`)
  return manifest
}

function pick(from: Record<string, string>, isWanted: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(Object.entries(from).filter(([name]) => isWanted(name)))
}
