/**
 * Builds the packages and the console: all of them, or with `--if-old` those that are missing or were made of other sources.
 * npm installs without scripts, so nothing else does. Plain JavaScript: `npm start` begins with it on every Node.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    'if-old': { type: 'boolean', default: false },
    // The platform works without any of them: what cannot be built is reported, and no fault.
    optional: { type: 'boolean', default: false },
    root: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
  },
})
const { root } = values

/** `tool` is a development dependency, `made` the file that others look for. */
const parts = [
  { folder: 'packages/stidx', script: 'scripts/build.ts', tool: 'rolldown', made: 'dist/stidx-search.js' },
  { folder: 'packages/client', script: 'scripts/build.ts', tool: 'typescript', made: 'dist/client.js' },
  { folder: 'console', script: 'build.ts', tool: 'vite', made: 'dist/index.html' },
]
const notSources = new Set(['dist', 'node_modules', 'test', 'bench', 'docs', 'examples'])

/** For each folder, the hash of the sources that its dist/ was made from. */
const noteFile = join(root, '.cache/built')
const built = readNotes()

for (const part of parts) {
  const { folder, script, made } = part
  const isMade = () => existsSync(join(root, folder, made))
  const sources = hashOf(folder)
  if (values['if-old'] && isMade() && built[folder] === sources) continue
  if (!hasTool(part)) {
    if (!values.optional) report(`${folder} cannot be built without ${part.tool}: run \`npm ci\` first`)
    continue
  }
  console.error(`building ${folder}`)
  // Standard output belongs to the command that runs next.
  const { status } = spawnSync(process.execPath, [script], {
    cwd: join(root, folder),
    stdio: ['ignore', 2, 2],
  })
  if (status === 0 && isMade()) note(folder, sources)
  else report(`${folder} could not be built`)
}

function report(fault) {
  console.error(values.optional ? `${fault}; going on without` : fault)
  if (!values.optional) process.exitCode = 1
}

/** Hashes contents, so that copies and checkouts count as the same; the lock file covers bundled packages. */
function hashOf(folder) {
  const hash = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')))
  for (const file of filesBelow(folder)) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

function filesBelow(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !notSources.has(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) =>
      entry.isDirectory() ? filesBelow(`${folder}/${entry.name}`) : `${folder}/${entry.name}`,
    )
}

function hasTool({ folder, tool }) {
  try {
    return createRequire(join(root, folder, 'package.json')).resolve(`${tool}/package.json`) !== ''
  } catch {
    return false
  }
}

function readNotes() {
  try {
    return JSON.parse(readFileSync(noteFile, 'utf8'))
  } catch {
    return {}
  }
}

function note(folder, sources) {
  built[folder] = sources
  mkdirSync(dirname(noteFile), { recursive: true })
  writeFileSync(noteFile, JSON.stringify(built))
}
