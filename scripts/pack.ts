/**
 * Makes `dist/flotilla-<version>.tgz` (`--out` names another folder), which `npm install` installs without a clone. Node takes
 * no types out of files below node_modules, so the package holds JavaScript: the same tree as the clone, file by file, with
 * source maps. Prints the path of the tarball.
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { compile } from './pack/compile.ts'
import { packedManifest } from './pack/manifest.ts'
import { packFolder } from './pack/npm-pack.ts'
import { copyFiles } from './pack/packed-files.ts'
import { runScript } from './run-script.ts'
import { projectRoot } from './source-files.ts'

/** More would be a file that nobody meant to pack. */
const megabytesMax = 15

const { values } = parseArgs({ options: { out: { type: 'string', default: join(projectRoot, 'dist') } } })
const out = resolve(values.out)
const stage = mkdtempSync(join(tmpdir(), 'flotilla-package-'))
process.on('exit', () => rmSync(stage, { recursive: true, force: true }))

runScript(['scripts/build.js', '--if-old'])
mkdirSync(out, { recursive: true })
const packages = await compile(stage)
copyFiles(stage)
const manifest = packedManifest(JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')), packages)
writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)

const tarball = packFolder(stage, out)
const megabytes = statSync(tarball).size / 1e6
if (megabytes > megabytesMax)
  throw new Error(`${tarball} has ${megabytes.toFixed(1)} MB, more than ${megabytesMax}`)
console.log(tarball)
