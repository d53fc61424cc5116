/** Makes a fixture for upgrades from this checkout: `npx node scripts/upgrade-fixture.ts --output test/fixtures/upgrade/NAME`. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { projectRoot } from './source-files.ts'
import { pack } from './upgrade/archive.ts'
import { goneForGood, lastPoints } from './upgrade/content.ts'
import type { Manifest, StackManifest, StackName } from './upgrade/manifest.ts'
import { makeDistributed, makeEmbedded } from './upgrade/stacks.ts'

/** Files of one run, one machine or one broker alone. */
const leftOut = [
  ...['./home/run', './home/owner.pid', './home/lock.sqlite', './home/targets.yaml'],
  ...['./kafka/.lock', './kafka/.kafka_cleanshutdown.lock'],
]

const { values } = parseArgs({ options: { output: { type: 'string' }, commit: { type: 'string' } } })
if (values.output === undefined) throw new Error('say where to: --output test/fixtures/upgrade/NAME')
const output = resolve(values.output)
mkdirSync(output, { recursive: true })

const { version } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as { version: string }
const manifest: Manifest = {
  made_by: {
    version,
    commit: values.commit ?? lastCommit(),
    node: process.version,
    at: new Date().toISOString(),
  },
  points: lastPoints(),
  deleted: goneForGood(),
  stacks: {
    embedded: await make('embedded', makeEmbedded),
    distributed: await make('distributed', makeDistributed),
  },
}
writeFileSync(join(output, 'manifest.json'), `${JSON.stringify(manifest, null, 1)}\n`)
process.exit(0)

async function make(name: StackName, fillIn: (folder: string) => Promise<StackManifest>) {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  try {
    const stack = await fillIn(folder)
    await pack(folder, join(output, `${name}.tar.zst`), leftOut)
    console.log(`${name}: ${stack.audit_notes.length} audit notes, ${stack.targets.length} targets`)
    return stack
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function lastCommit(): string {
  return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: projectRoot, encoding: 'utf8' }).trim()
}
