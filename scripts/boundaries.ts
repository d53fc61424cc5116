/** The rules of who may import whom: given a file and its text, says what breaks them. */

import { posix } from 'node:path'

/** What a room may import besides itself. A room that is not named here (test, bench, scripts) is free. */
const mayImport: Record<string, readonly string[]> = {
  lib: [],
  schemas: [],
  stidx: [],
  client: [],
  topics: ['lib', 'schemas'],
  engines: ['lib', 'schemas'],
  runtime: ['lib', 'schemas', 'topics', 'engines'],
  services: ['lib', 'schemas', 'topics', 'engines', 'runtime'],
  cli: ['lib', 'schemas', 'topics', 'engines', 'runtime', 'services', 'client', 'stidx'],
}

/** What imports may lead to; the developers' own folders among them, which no room may see. */
const rooms = new Set([...Object.keys(mayImport), 'test', 'bench', 'scripts'])

/** Files of engines/ that are no drivers. */
const portFiles =
  /^engines\/[^/]+\/port\.ts$|^engines\/vectors\/collections\.ts$|^engines\/relational\/(mirror-port|migrate)\.ts$/
const compositionFile = 'engines/open.ts'
const servicesList = 'services/index.ts'

const importPattern = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|new\s+URL\(\s*)'((?:#|\.{1,2}\/)[^']+)'/g

/** The project files that `text` imports, as paths below the project; imports of packages are left out. */
export function importsOf(file: string, text: string): string[] {
  const found: string[] = []
  for (const match of text.matchAll(importPattern)) {
    const target = match[1]!
    found.push(target.startsWith('#') ? target.slice(1) : posix.join(posix.dirname(file), target))
  }
  return found
}

/** Packages stand alone: nothing of the project, and no package of others, is needed to run them. */
const packageRooms = new Set(['stidx', 'client'])

/** The sources of a package are a room with its name; its tests, benches and scripts are free. */
function roomOf(path: string): string {
  const [top, name, part] = path.split('/')
  return top === 'packages' && part === 'src' ? name! : top!
}

/** One sentence for each rule that the file breaks. */
export function boundaryFaults(file: string, text: string): string[] {
  const room = roomOf(file)
  const faults = importsOf(file, text).flatMap((target) => {
    const fault = importFault(room, file, target)
    return fault ? [`${file} imports ${target}: ${fault}`] : []
  })
  if (room in mayImport && room !== 'cli' && /\bprocess\s*\.\s*env\b/.test(text)) {
    faults.push(`${file} reads process.env: only cli/ does, and hands it on`)
  }
  if (packageRooms.has(room)) faults.push(...packageFaults(file, text))
  return faults
}

const packagePattern = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+)'((?!node:|#|\.)[^']+)'/g

/** Its bundle holds it. */
const bundled = 'packages/stidx/src/command/index-jsonl.ts imports cli-progress'

function packageFaults(file: string, text: string): string[] {
  return [...text.matchAll(packagePattern)]
    .map((match) => `${file} imports ${match[1]}`)
    .filter((found) => found !== bundled)
    .map((found) => `${found}: a package must run without others`)
}

function importFault(room: string, file: string, target: string): string | null {
  const allowed = mayImport[room]
  if (!allowed) return null
  const targetRoom = roomOf(target)
  // Files outside of the rooms (package.json) are data for everyone.
  if (!rooms.has(targetRoom)) return null
  if (targetRoom !== room && !allowed.includes(targetRoom)) return `${room} may not see ${targetRoom}`
  if (targetRoom === 'engines') return engineFault(room, file, target)
  if (room === 'services' && targetRoom === 'services' && file !== servicesList) {
    if (target.split('/')[1] !== file.split('/')[1]) return 'a service never imports another service'
  }
  return null
}

function engineFault(room: string, file: string, target: string): string | null {
  if (file === compositionFile || portFiles.test(target)) return null
  if (room === 'engines') {
    return target.split('/')[1] === file.split('/')[1] ? null : 'engines do not know each other'
  }
  if (target === compositionFile && room !== 'services') return null
  return `only ${compositionFile} names drivers; everyone else sees engines/*/port.ts`
}
