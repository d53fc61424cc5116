#!/usr/bin/env node
// Starts the `stidx` command on any Node from 20 on. The time of a search is mostly the start of its process: so it is
// one file of plain JavaScript (dist/stidx-search.js, made by scripts/build.ts), and V8's compiled form of it is kept
// next to it after the first search, where that folder can be written to. V8 refuses a form that another version made.
'use strict'

const fs = require('node:fs')
const { dirname } = require('node:path')
const { Script } = require('node:vm')

const dist = `${dirname(__dirname)}/dist`
const [command] = process.argv.slice(2)

if (!fs.existsSync(`${dist}/stidx-search.js`)) {
  console.error('stidx is not built: run `npm ci && npm run build` in the clone that it is linked to')
  process.exit(2)
}

if (command === 'index-jsonl') {
  require('../dist/stidx-index.cjs').indexJsonl(process.argv.slice(3)).then(process.exit)
} else {
  search()
}

function search() {
  // Its first line is `// ` and a hash of the rest.
  const source = fs.readFileSync(`${dist}/stidx-search.js`, 'latin1')
  const ofSource = `.stidx-${source.slice(3, 19)}-`
  const kept = `${dist}/${ofSource}${process.version}-${process.arch}.cache`
  const cachedData = readKept(kept)
  const script = new Script(source, { filename: `${dist}/stidx-search.js`, cachedData })
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

/** V8 compiles a function at its first call, so everything is called once before. */
function keep(kept, ofSource, make) {
  const own = `${kept}.${process.pid}`
  try {
    const file = fs.openSync(own, 'wx', 0o644)
    try {
      fs.writeFileSync(file, make())
    } finally {
      fs.closeSync(file)
    }
    for (const name of fs.readdirSync(dist)) {
      const isOld = /^\.stidx-.*\.cache$/.test(name) && !name.startsWith(ofSource)
      if (isOld) fs.rmSync(`${dist}/${name}`, { force: true })
    }
    fs.renameSync(own, kept)
  } catch {
    // A folder that cannot be written to: the next search compiles for itself again.
    fs.rmSync(own, { force: true })
  }
}
