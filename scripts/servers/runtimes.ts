/** Other runtimes of JavaScript, from their packages for one machine. */

import { join } from 'node:path'
import { install, npmInstall } from './install.ts'

const versions = { bun: '1.4.5', deno: '2.9.6' }

/** Other runtimes of JavaScript by name, as programs; empty where they are not made for this machine. Needs npm. */
export async function installRuntimes(): Promise<{ bun?: string; deno?: string }> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return {}
  const [bun, deno] = ['@oven/bun-linux-x64', '@deno/linux-x64-glibc']
  const programs = { bun: join('node_modules', bun, 'bin', 'bun'), deno: join('node_modules', deno, 'deno') }
  const name = `runtimes-${versions.bun}-${versions.deno}`
  const folder = await install(name, programs.deno, (target) =>
    npmInstall(target, [`${bun}@${versions.bun}`, `${deno}@${versions.deno}`]),
  )
  return { bun: join(folder, programs.bun), deno: join(folder, programs.deno) }
}
