/** When the embedded mirror's cluster may be trusted. */

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { holdsCluster, type MirrorFolder, openMirrorFolder } from '#engines/relational/mirror/pglite.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

function fill(folder: MirrorFolder): void {
  mkdirSync(join(folder.cluster, 'base'), { recursive: true })
  writeFileSync(join(folder.cluster, 'base', '1'), 'rows')
}

function made(directory: string, boot: string | null): MirrorFolder {
  const folder = openMirrorFolder(directory, boot)
  fill(folder)
  folder.made()
  return folder
}

describe('the cluster of the embedded mirror', () => {
  it('is kept after a clean close, on whatever run of the machine', () => {
    const directory = temporaryFolder()
    made(directory, 'boot-1').closed()
    const again = openMirrorFolder(directory, 'boot-2')
    expect(again.discarded).toBeUndefined()
    expect(existsSync(join(again.cluster, 'base', '1'))).toBe(true)
  })

  it('is kept when the process was killed and the machine went on', () => {
    const directory = temporaryFolder()
    made(directory, 'boot-1')
    expect(openMirrorFolder(directory, 'boot-1').discarded).toBeUndefined()
  })

  it('is thrown away when the machine stopped while it was open', () => {
    const directory = temporaryFolder()
    made(directory, 'boot-1')
    const again = openMirrorFolder(directory, 'boot-2')
    expect(again.discarded).toBe('the machine stopped while it was open')
    expect(existsSync(again.cluster)).toBe(false)
    fill(again)
    again.made()
    expect(openMirrorFolder(directory, 'boot-2').discarded).toBeUndefined()
  })

  it('is thrown away after any unclean stop where the system does not tell its runs apart', () => {
    const directory = temporaryFolder()
    made(directory, null)
    expect(openMirrorFolder(directory, null).discarded).toBe('the machine stopped while it was open')
  })

  it('is thrown away when it was never finished', () => {
    const directory = temporaryFolder()
    fill(openMirrorFolder(directory, 'boot-1'))
    expect(openMirrorFolder(directory, 'boot-1').discarded).toBe('it was never finished')
  })

  it('counts as there only when it would be kept, and asking changes nothing', () => {
    const directory = temporaryFolder()
    expect(holdsCluster(directory, 'boot-1')).toBe(false)
    expect(existsSync(join(directory, 'OPEN'))).toBe(false)
    const folder = openMirrorFolder(directory, 'boot-1')
    fill(folder)
    expect(holdsCluster(directory, 'boot-1')).toBe(false)
    folder.made()
    expect(holdsCluster(directory, 'boot-1')).toBe(true)
    expect(holdsCluster(directory, 'boot-2')).toBe(false)
    folder.closed()
    expect(holdsCluster(directory, 'boot-2')).toBe(true)
  })
})
