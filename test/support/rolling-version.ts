/** The code of earlier versions, unpacked: their processes run next to those of this checkout. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { unpack } from '../../scripts/upgrade/archive.ts'
import { commandOfToday } from './distributed-process.ts'

const versions = fileURLToPath(new URL('../fixtures/versions', import.meta.url))
const dependencies = fileURLToPath(new URL('../../node_modules', import.meta.url))
const suffix = '.tar.zst'

export interface Version {
  name: string
  /** The file of its `flotilla` command. */
  command: string
}

export const today: Version = { name: 'today', command: commandOfToday }

/** Commits whose code is packed. */
export function versionNames(): string[] {
  return readdirSync(versions).map((file) => file.slice(0, -suffix.length))
}

/** It runs with the dependencies of this checkout. */
export async function unpackVersion(name: string): Promise<Version & { remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  try {
    const checkout = join(folder, 'checkout')
    mkdirSync(checkout)
    await unpack(join(versions, `${name}${suffix}`), checkout)
    // Those of today: what older versions import besides (pino-pretty, the client of Qdrant) is a development dependency.
    symlinkSync(dependencies, join(checkout, 'node_modules'))
    return { name, command: join(checkout, 'bin', 'flotilla.js'), remove }
  } catch (error) {
    remove()
    throw error
  }
}
