/** Packs a folder that was made for it: the same files give the same bytes. */

import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Writes the tarball into `out` and returns its path. npm sets the times and the order, not the modes. */
export function packFolder(folder: string, out: string): string {
  setModes(folder)
  const args = ['pack', folder, '--pack-destination', out, '--ignore-scripts', '--json']
  const { status, stdout, stderr } = spawnSync('npm', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`npm pack failed: ${stderr || stdout}`)
  const [packed] = Object.values(JSON.parse(stdout) as { filename: string }[])
  return join(out, packed!.filename)
}

/** Those of a checkout follow the umask of whoever made it. */
function setModes(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) setModes(path)
    else chmodSync(path, statSync(path).mode & 0o100 ? 0o755 : 0o644)
  }
}
