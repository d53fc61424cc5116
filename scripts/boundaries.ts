/** The rules of who may import whom: each source file belongs to a room, and imports go from higher rooms to lower ones. */

import { posix } from 'node:path'

/**
 * Any area may import them, and they may import each other: who calls, and the goals, which dispatches make together with
 * their own rows.
 */
const baseAreas = [
  'services/access',
  'services/records/store',
  'services/records/goals',
  'services/records/notes',
]
/** Areas meet in topics and in the base areas, never in each other's files. */
const areas = ['vectors', 'webhooks', 'records', 'runs', 'outbox'].map((name) => `services/${name}`)

const kit = ['lib', 'schemas', 'topics', 'engines', 'runtime']
/** The rooms that a room may import besides itself. */
const mayImport: Record<string, readonly string[]> = {
  lib: [],
  schemas: [],
  'packages/stidx': [],
  'packages/client': [],
  topics: ['lib', 'schemas'],
  // Filters read the words of a text as local search does.
  engines: ['lib', 'schemas', 'packages/stidx'],
  runtime: ['lib', 'schemas', 'topics', 'engines'],
  ...Object.fromEntries(baseAreas.map((area) => [area, [...kit, ...baseAreas]])),
  ...Object.fromEntries(areas.map((area) => [area, [...kit, ...baseAreas]])),
  // Its reference node is an agent like those of users: it reaches the platform by the client. Events pass on JSON as records do.
  'services/runs': [...kit, ...baseAreas, 'packages/client', 'packages/stidx'],
  // The client says how audit notes are left out of a search: agents and the console leave out the same.
  operations: [...kit, ...baseAreas, ...areas, 'packages/client'],
  // The one area above the operations: it mounts them, and the areas' own routes.
  'services/main-api': [...kit, ...baseAreas, ...areas, 'operations'],
  services: [...kit, ...baseAreas, ...areas, 'services/main-api'],
}
// cli/library.ts starts the launcher.
mayImport.cli = [...Object.keys(mayImport), 'bin']

/** The developers' own folders: they may import everything, and nothing imports them. */
const workshops = ['test', 'bench', 'scripts', 'bin', 'console']
const rootFiles = ['vitest.config.ts']

/** Files of engines/ that are no drivers: ports, settings and what all drivers of a port share. */
const portFiles =
  /^engines\/([^/]+\/)+(port|settings)\.ts$|^engines\/vectors\/(collections|filter|values)\.ts$|^engines\/relational\/migrate\.ts$/
const compositionFile = 'engines/open.ts'

const importPattern = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|new\s+URL\(\s*)'((?:#|\.{1,2}\/)[^']+)'/g

/** The project files that `text` imports, as paths below the project; imports of packages are left out. */
function importsOf(file: string, text: string): string[] {
  const found: string[] = []
  for (const match of text.matchAll(importPattern)) {
    const target = match[1]!.replace(/^#(stidx|client)\//, '#packages/$1/src/')
    found.push(target.startsWith('#') ? target.slice(1) : posix.join(posix.dirname(file), target))
  }
  return found
}

/** The room that a file lies in; null for a folder that these rules do not know. */
function roomOf(file: string): string | null {
  const [first = '', second = '', third = ''] = file.split('/')
  // The lists of all services and all migrations.
  if (/^services\/[^/]+\.ts$/.test(file)) return 'services'
  // Tests, benches and scripts of a package.
  if (first === 'packages' && third !== 'src') return `${first}/${second}` in mayImport ? 'test' : null
  if (first === 'services' || first === 'packages') {
    const rooms = [`${first}/${second}/${third}`, `${first}/${second}`]
    return rooms.find((room) => room in mayImport) ?? null
  }
  if (first in mayImport || workshops.includes(first)) return first
  return rootFiles.includes(file) ? '' : null
}

/** A client reads the variables of the program that uses it. */
const clientSettings = 'packages/client/src/settings.ts'

/** One sentence for each rule that the file breaks. */
export function boundaryFaults(file: string, text: string): string[] {
  const room = roomOf(file)
  if (room === null)
    return [`${file} lies in a folder that scripts/boundaries.ts does not know: give it a place there`]
  if (room === '' || workshops.includes(room)) return []
  const faults = importsOf(file, text).flatMap((target) => {
    const fault = importFault(room, file, target)
    return fault ? [`${file} imports ${target}: ${fault}`] : []
  })
  if (room !== 'cli' && file !== clientSettings && /\bprocess\s*\.\s*env\b/.test(text)) {
    faults.push(`${file} reads process.env: only cli/ does, and passes it on`)
  }
  if (room.startsWith('packages/')) faults.push(...packageFaults(file, text))
  return faults
}

const packagePattern = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+)'((?!node:|#|\.)[^']+)'/g

const mayUse = [
  // Its bundle holds it.
  'packages/stidx/src/command/index-jsonl.ts imports cli-progress',
  // Node's own signs nowhere else.
  'packages/client/src/signer.ts imports @noble/ed25519',
]

function packageFaults(file: string, text: string): string[] {
  return [...text.matchAll(packagePattern)]
    .map((match) => `${file} imports ${match[1]}`)
    .filter((found) => !mayUse.includes(found))
    .map((found) => `${found}: a package must run without others`)
}

function importFault(room: string, file: string, target: string): string | null {
  // Files at the root (package.json) and installed packages are data for everyone.
  if (!target.includes('/') || target.startsWith('node_modules/')) return null
  const targetRoom = roomOf(target)
  if (targetRoom === null) return 'it lies in a folder that the rules do not know'
  if (targetRoom !== room && !mayImport[room]!.includes(targetRoom))
    return `${room} may not import ${targetRoom}`
  if (targetRoom === 'engines') return engineFault(room, file, target)
  return null
}

function engineFault(room: string, file: string, target: string): string | null {
  if (file === compositionFile || portFiles.test(target)) return null
  if (room === 'engines') {
    return target.split('/')[1] === file.split('/')[1] ? null : 'engines do not know each other'
  }
  if (target === compositionFile && !room.startsWith('services')) return null
  return `only ${compositionFile} names drivers; everyone else imports engines/*/port.ts`
}

/**
 * The circles of imports among the files (path → text), each as the sorted list of its files. Type-only imports count:
 * a circle is hard to read, whatever the compiler makes of it.
 */
export function circlesOf(files: ReadonlyMap<string, string>): string[][] {
  const targets = new Map(
    [...files].map(([file, text]) => [file, importsOf(file, text).filter((to) => files.has(to))]),
  )
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const circles: string[][] = []
  // Tarjan's algorithm: files of one circle share the lowest index that they can reach.
  function visit(file: string): void {
    index.set(file, index.size)
    low.set(file, index.get(file)!)
    stack.push(file)
    for (const to of targets.get(file)!) {
      if (!index.has(to)) visit(to)
      if (stack.includes(to)) low.set(file, Math.min(low.get(file)!, low.get(to)!))
    }
    if (low.get(file) !== index.get(file)) return
    const circle = stack.splice(stack.indexOf(file))
    if (circle.length > 1 || targets.get(file)!.includes(file)) circles.push(circle.sort())
  }
  for (const file of targets.keys()) if (!index.has(file)) visit(file)
  return circles
}
