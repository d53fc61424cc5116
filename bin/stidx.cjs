#!/usr/bin/env node
// Starts the `stidx` command on any Node from 20 on. Process start is what a search costs: so it is one file of plain
// JavaScript (stidx-search.js, made by scripts/stidx-bundle.ts), and V8's compiled form of it is kept beside it after
// the first search, where this folder can be written to. V8 itself refuses a form made by another version of it.
'use strict'

const fs = require('node:fs')
const { Script } = require('node:vm')

const [command] = process.argv.slice(2)

if (command === 'index-jsonl') {
  require('./stidx-index.cjs').indexJsonl(process.argv.slice(3)).then(process.exit)
} else {
  search()
}

function search() {
  // Its first line is `// ` and a hash of the rest.
  const source = fs.readFileSync(`${__dirname}/stidx-search.js`, 'latin1')
  const ofSource = `.stidx-${source.slice(3, 19)}-`
  const kept = `${__dirname}/${ofSource}${process.version}-${process.arch}.cache`
  const cachedData = readKept(kept)
  const script = new Script(source, { filename: `${__dirname}/stidx-search.js`, cachedData })
  const { runCommand, warmUp } = script.runInThisContext()(require)
  const exitCode = runCommand(process.argv.slice(2), process.env)
  if (command === 'search' && exitCode === 0 && (!cachedData || script.cachedDataRejected)) {
    keep(kept, ofSource, () => {
      warmUp(process.argv.slice(3), process.env)
      return script.createCachedData()
    })
  }
  process.exit(exitCode)
}

function readKept(kept) {
  try {
    return fs.readFileSync(kept)
  } catch {
    return undefined
  }
}

/** What was not called yet is not compiled yet: so everything is called once before. */
function keep(kept, ofSource, make) {
  const own = `${kept}.${process.pid}`
  try {
    const file = fs.openSync(own, 'wx', 0o644)
    try {
      fs.writeFileSync(file, make())
    } finally {
      fs.closeSync(file)
    }
    for (const name of fs.readdirSync(__dirname)) {
      const isOld = /^\.stidx-.*\.cache$/.test(name) && !name.startsWith(ofSource)
      if (isOld) fs.rmSync(`${__dirname}/${name}`, { force: true })
    }
    fs.renameSync(own, kept)
  } catch {
    // A folder that cannot be written to: the next search compiles for itself again.
    fs.rmSync(own, { force: true })
  }
}
