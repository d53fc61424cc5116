#!/usr/bin/env node
// Runs the `flotilla` command on the Node that this package pins, whatever Node started this file (20 or later).
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module, { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const require = createRequire(import.meta.url)
// A clone runs its sources. The package has JavaScript in their place: Node takes no types out of files below node_modules.
const source = new URL('../cli/main.ts', import.meta.url)
const isClone = existsSync(source)
const main = fileURLToPath(isClone ? source : new URL('../cli/main.js', import.meta.url))
/** An installed package stays as npm made it. */
const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'flotilla')
// Compiled code is kept from one run to the next, also by threads and processes that are started from here: without it
// most of a start is compiling every file. A folder that cannot be written to does no harm.
process.env.NODE_COMPILE_CACHE ??= isClone
  ? fileURLToPath(new URL('../node_modules/.cache/compiled/', import.meta.url))
  : join(cache, 'compiled')
const major = Number(process.versions.node.split('.')[0])

const localSearch = new Set(['index-jsonl', 'search', 'get', 'stats'])

const [verb, ...words] = process.argv.slice(2)
// Without a file `stats` asks the platform.
const isLocal = localSearch.has(verb) && (verb !== 'stats' || words.some((word) => !word.startsWith('-')))

const stidx = new URL('../packages/stidx/', import.meta.url)
// Without development dependencies it is not built: the platform runs its sources then.
const isBuilt = existsSync(new URL('dist/stidx-search.js', stidx))

if (verb === '--version' && words.length === 0) {
  console.log(require('../package.json').version)
} else if (isLocal && isBuilt) {
  // The package's own command runs on any Node from 20 on and loads nothing of the platform.
  require(fileURLToPath(new URL('bin/stidx.cjs', stidx)))
} else if (major >= 24) {
  if (verb === 'start') beginSmall()
  module.enableCompileCache()
  endWithNpm()
  await import(pathToFileURL(main).href)
} else {
  endWithNpm()
  const { pinnedNode } = await import('./pinned-node.js')
  runOn(pinnedNode(cache))
}

/** The environment that a platform starts with, so that memory goes back to the system. What is set already stays. */
function smallEnvironment() {
  const small = require('./start-environment.json')
  const options = `${small.NODE_OPTIONS} ${process.env.NODE_OPTIONS ?? ''}`.trim()
  return { ...small, ...process.env, NODE_OPTIONS: options }
}

/**
 * The C library and V8 read these settings only when a process begins: this one begins again, with the same id. One with
 * a channel to its parent would lose it, and one that has the settings needs nothing.
 */
function beginSmall() {
  if (!process.execve || process.platform === 'win32' || process.channel || process.env.MALLOC_ARENA_MAX)
    return
  const own = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, own, smallEnvironment())
}

/**
 * npm passes a signal to its shell alone, which ends without passing it on. This process has another parent then.
 */
function endWithNpm() {
  if (!process.env.npm_lifecycle_event) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, 1_000)
  watch.unref()
}

/** The IPC channel lets the child notice that this launcher was killed; signals travel on to it. */
function runOn(node) {
  const child = spawn(node, [main, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...(verb === 'start' ? smallEnvironment() : process.env), FLOTILLA_LAUNCHED: '1' },
  })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A program that started this launcher by a channel of its own was killed.
  if (process.env.FLOTILLA_LAUNCHED === '1') process.on('disconnect', () => child.kill('SIGTERM'))
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
}
