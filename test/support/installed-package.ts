/** A package of this repository as its users get it. */

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectFolder } from './pages.ts'
import { temporaryFolder } from './temporary.ts'

/** A folder in which it is installed with what it depends on, all of it as tarballs: no registry is asked. */
export function installedPackage(name: string): string {
  const folder = temporaryFolder()
  const source = join(projectFolder, 'packages', name)
  const { dependencies = {} } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>
  }
  const modules = Object.keys(dependencies).map((module) => join(projectFolder, 'node_modules', module))
  // `prepare` has run: running it again would remove files that other suites use at this moment.
  for (const one of [source, ...modules]) npm(['pack', '--ignore-scripts', '--pack-destination', folder], one)
  const tarballs = readdirSync(folder).map((file) => `./${file}`)
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  npm(['install', '--offline', ...tarballs], folder)
  return folder
}

function npm(args: string[], cwd: string): void {
  execFileSync('npm', [...args, '--silent', '--no-audit', '--no-fund'], { cwd })
}
