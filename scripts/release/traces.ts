/** Finds what a release must not hold: paths of the machine that made it, and the host of the registry it was made with. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import { extract } from 'tar-stream'
import { projectRoot } from '../source-files.ts'

/** The names, each with the first file of the folder, or of a tarball in it, that holds it. */
export async function traceFaults(folder: string, files: readonly string[]): Promise<string[]> {
  const names = machineNames()
  const holders = new Map<string, string[]>()
  const look = (file: string, content: Buffer, path = file) => {
    const found = names.find((name) => content.includes(name)) ?? sourceOutside(path, content)
    if (found) holders.set(found, [...(holders.get(found) ?? []), file])
  }
  for (const file of files) {
    const content = readFileSync(join(folder, file))
    if (!file.endsWith('.tgz')) look(file, content)
    else for await (const [path, inner] of entriesOf(content)) look(`${file}: ${path}`, inner, path)
  }
  return [...holders].map(([name, [file, ...others]]) => {
    const more = others.length > 0 ? ` (and ${others.length} more files)` : ''
    return `${file}${more} holds "${name}", a name of this machine: leave it out where it is made`
  })
}

/** The folders in which things are made, and the registries. */
function machineNames(): string[] {
  const { stdout } = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' })
  const registry = URL.canParse(stdout.trim()) ? [new URL(stdout.trim()).hostname] : []
  const temporary = ['flotilla-package-', 'flotilla-sbom-'].map((name) => join(tmpdir(), name))
  return [resolve(projectRoot), ...temporary, ...registry, 'registry.npmjs.org']
}

/** What a source map names outside its package: the way from there to the clone tells where both were. */
function sourceOutside(path: string, content: Buffer): string | undefined {
  if (!path.endsWith('.map')) return undefined
  const { sources } = JSON.parse(content.toString('utf8')) as { sources: string[] }
  const isInside = (source: string) => posix.resolve('/', posix.dirname(path), source).startsWith('/package/')
  return sources.find((source) => URL.canParse(source) || posix.isAbsolute(source) || !isInside(source))
}

async function* entriesOf(tarball: Buffer): AsyncGenerator<[string, Buffer]> {
  const entries = Readable.from([tarball]).pipe(createGunzip()).pipe(extract())
  for await (const entry of entries) yield [entry.header.name, await buffer(entry)]
}
