/** Rules for package-lock.json, so that `npm ci` works on every platform. */

export interface Locked {
  version?: string
  integrity?: string
  link?: boolean
  optional?: boolean
  dev?: boolean
  os?: string[]
  cpu?: string[]
  libc?: string[]
  optionalDependencies?: Record<string, string>
}

export type LockedPackages = Record<string, Locked>

const installed = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)$/

/** Native packages of other platforms that npm left out, because the registry at hand does not carry them. */
export function missingPackages(packages: LockedPackages): { name: string; version: string; dev: boolean }[] {
  return Object.values(packages).flatMap((owner) =>
    Object.entries(owner.optionalDependencies ?? {})
      .filter(([name]) => !(`node_modules/${name}` in packages))
      .map(([name, version]) => ({ name, version, dev: owner.dev === true })),
  )
}

/** Paths and `name@version` of what npm could not check after the download. */
export function withoutIntegrity(packages: LockedPackages): { path: string; id: string }[] {
  return Object.entries(packages).flatMap(([path, { version, integrity, link }]) => {
    const name = installed.exec(path)?.[1]
    return name === undefined || link || integrity ? [] : [{ path, id: `${name}@${version}` }]
  })
}

/** `excepted` are those that no registry at hand could tell; the list can only shrink. */
export function lockFaults(packages: LockedPackages, excepted: readonly string[]): string[] {
  const bare = new Set(withoutIntegrity(packages).map(({ id }) => id))
  return [
    ...missingPackages(packages).map(({ name }) => `${name} is missing`),
    ...[...bare].filter((id) => !excepted.includes(id)).map((id) => `${id} has no integrity`),
    ...excepted.filter((id) => !bare.has(id)).map((id) => `${id} needs no exception: remove it`),
  ]
}
