/** The licences under which packages may be part of what users install. */

import { type Component, idOf } from './component.ts'

/** As packages declare them. None asks more than its text and its notices to be kept. */
const allowed = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unlicense',
  '(MIT OR CC0-1.0)',
])

/**
 * Packages of which package-lock.json names no licence, by name and version. The list can only shrink, or change with a
 * version that somebody read.
 */
export const readByHand: Readonly<Record<string, string>> = {
  // Native parts of @zvec/zvec for other systems, which not every registry carries: that for linux-x64 declares it.
  '@zvec/bindings-darwin-arm64@0.7.0': 'Apache-2.0',
  '@zvec/bindings-linux-arm64@0.7.0': 'Apache-2.0',
  '@zvec/bindings-linux-arm64-musl@0.7.0': 'Apache-2.0',
  '@zvec/bindings-linux-x64-musl@0.7.0': 'Apache-2.0',
  '@zvec/bindings-win32-x64@0.7.0': 'Apache-2.0',
}

/** Packages whose licence is missing or not allowed, and exceptions that no package needs. */
export function licenceFaults(components: readonly Component[]): string[] {
  const bare = new Set(components.filter(({ licenses }) => !licenses?.length).map(idOf))
  const byId = new Map(components.map((component) => [idOf(component), component]))
  const faults = [...byId].flatMap(([id, component]) => faultsOf(id, component))
  const unused = Object.keys(readByHand).filter((id) => !bare.has(id))
  return [
    ...faults,
    ...unused.map((id) => `${id} needs no exception: remove it from scripts/release/licences.ts`),
  ]
}

function faultsOf(id: string, { licenses }: Component): string[] {
  const declared = (licenses ?? []).map(
    ({ license, expression }) => expression ?? license?.id ?? license?.name ?? '',
  )
  if (declared.length === 0) declared.push(readByHand[id] ?? '')
  return declared.flatMap((licence) => {
    if (allowed.has(licence)) return []
    return licence === ''
      ? [`${id} names no licence: read its text and add it to readByHand in scripts/release/licences.ts`]
      : [`${id} has the licence ${licence}, which is not allowed by scripts/release/licences.ts: replace it`]
  })
}
