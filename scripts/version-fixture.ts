/** Packs the code of a commit for the rolling upgrade: `npx node scripts/version-fixture.ts COMMIT`, best of each release. */

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { projectRoot } from './source-files.ts'
import { packSource } from './upgrade/source.ts'

const [commit] = process.argv.slice(2)
if (commit === undefined) throw new Error('say which commit')
const name = execFileSync('git', ['rev-parse', '--short', commit], { cwd: projectRoot, encoding: 'utf8' })
const file = join(projectRoot, 'test', 'fixtures', 'versions', `${name.trim()}.tar.zst`)
await packSource(commit, file)
console.log(file)
