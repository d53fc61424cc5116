/** A package in a bill of materials. */

/** The parts of CycloneDX's component that matter here. */
export interface Component {
  name: string
  version: string
  licenses?: { license?: { id?: string; name?: string }; expression?: string }[]
  hashes?: { alg: string; content: string }[]
}

/** Name and version. */
export function idOf({ name, version }: Component): string {
  return `${name}@${version}`
}
