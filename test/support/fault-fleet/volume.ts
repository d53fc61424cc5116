/** A volume of limited size, which a test fills up: a tmpfs, which only root may mount. */

import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Volume {
  path: string
  /** Until not one byte more is taken. */
  fill(): void
  /** Gives back what `fill` took. */
  free(): void
  usedMb(): number
  unmount(): void
}

const fillerBytes = 65_536

/**
 * Null, and one line that says so, where it may not be mounted. Where CI is set it throws instead: a suite must not go
 * without it there unnoticed.
 */
export function mountVolume(sizeMb: number): Volume | null {
  const path = mkdtempSync(join(tmpdir(), 'fl-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMb}m,mode=700`, 'tmpfs', path], { stdio: 'pipe' })
  } catch (error) {
    rmSync(path, { recursive: true })
    if (process.env.CI !== undefined) throw error
    console.error('\n*** No volume may be mounted (root may): FULL DISKS ARE NOT TRIED. ***\n')
    return null
  }
  const filler = join(path, 'filler')
  return {
    path,
    fill() {
      const file = openSync(filler, 'a')
      try {
        for (let bytes = fillerBytes; bytes >= 1; bytes >>= 1) writeUntilFull(file, Buffer.alloc(bytes, 1))
      } finally {
        closeSync(file)
      }
    },
    free: () => rmSync(filler, { force: true }),
    usedMb() {
      const { blocks, bfree, bsize } = statfsSync(path)
      return ((blocks - bfree) * bsize) / 2 ** 20
    },
    unmount() {
      execFileSync('umount', ['--lazy', path])
      rmSync(path, { recursive: true, force: true })
    },
  }
}

function writeUntilFull(file: number, bytes: Buffer): void {
  for (;;) {
    try {
      if (writeSync(file, bytes) < bytes.length) return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return
      throw error
    }
  }
}
