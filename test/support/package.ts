/** The package, made and installed as a user does, for tests. */

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { anyPorts } from './any-ports.ts'
import { projectFolder } from './pages.ts'

/** Only ends a hang. */
const npmMsMax = 300_000

/** Makes the tarball in a folder and returns its path. */
export function makePackage(folder: string): string {
  const script = join(projectFolder, 'scripts/pack.ts')
  return execFileSync(process.execPath, [script, '--out', folder], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 2],
  })
    .trim()
    .split('\n')
    .at(-1)!
}

/** An empty project with the package in it. `options` are those of `npm install`. */
export function installPackage(
  tarball: string,
  folder: string,
  env: Record<string, string>,
  options: string[] = [],
): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  execFileSync('npm', ['install', tarball, '--silent', '--no-audit', '--no-fund', ...options], {
    cwd: folder,
    env: { ...process.env, ...env },
    timeout: npmMsMax,
    stdio: ['ignore', 'ignore', 2],
  })
}

/** The libraries of distributed drivers, in the versions that an installed package names, as options of `npm install`. */
export function librariesOf(installed: string): string[] {
  const { peerDependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  return Object.entries(peerDependencies as Record<string, string>)
    .filter(([name]) => !name.startsWith('node-'))
    .map(([name, version]) => `${name}@${version}`)
}

/** Where npm finds its registry. */
const ofRegistry =
  /^(NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|npm_config_(registry|userconfig|globalconfig|cafile|cache)|(https?|no|all)_proxy)$/i

/** Variables with which programs find this Node first, npm its registry, and a platform takes any ports. */
export function withNode(node: string, cache: string): Record<string, string> {
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => ofRegistry.test(name))),
    XDG_CACHE_HOME: cache,
    ...anyPorts,
    PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}`,
  }
}

/** A Node below 24, with npm: one on the path, or fetched by npm into `folder`. */
export function olderNode(folder: string): string {
  const named = (process.env.PATH ?? '').split(delimiter).map((path) => join(path, 'node'))
  const found = named.find((node) => existsSync(node) && ['20', '22'].includes(majorOf(node)))
  if (found !== undefined) return found
  const name = `node-${process.platform}-${process.arch}`
  execFileSync('npm', ['install', `${name}@20`, '--prefix', folder, '--no-save', '--silent'], {
    stdio: ['ignore', 'ignore', 2],
  })
  return join(folder, 'node_modules', name, 'bin/node')
}

function majorOf(node: string): string {
  return execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }).split('.')[0] ?? ''
}
