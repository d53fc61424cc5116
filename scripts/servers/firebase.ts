/** Starts the Auth emulator of firebase-tools on a free port. It takes up to a minute on a busy machine: once for a suite. */

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, removeAtEnd, startChild, untilReady } from './children.ts'
import { installFirebaseTools } from './install.ts'
import type { LocalServer } from './registry.ts'

const readyMs = 180_000

/** Names beginning with `demo-` belong to no real project: nothing of Google's is asked. */
export const emulatedProject = 'demo-flotilla'

export async function openAuthEmulator(): Promise<LocalServer & { host: string }> {
  const program = await installFirebaseTools()
  const folder = mkdtempSync(join(tmpdir(), 'fl-firebase-'))
  removeAtEnd(folder)
  const [port, hub, logging] = await Promise.all([freePort(), freePort(), freePort()])
  const at = (port: number) => ({ host: '127.0.0.1', port })
  const emulators = { auth: at(port), hub: at(hub), logging: at(logging), ui: { enabled: false } }
  writeFileSync(join(folder, 'firebase.json'), JSON.stringify({ emulators }))
  const args = [program, 'emulators:start', '--only', 'auth', '--project', emulatedProject]
  const child = startChild(process.execPath, args, {
    logFile: join(folder, 'server.log'),
    cwd: folder,
    // It writes its own settings, and must not find those of a person.
    env: { XDG_CONFIG_HOME: folder, HOME: folder, CI: '1', NO_UPDATE_NOTIFIER: '1' },
  })
  const host = `127.0.0.1:${port}`
  const url = `http://${host}`
  const answers = async () => (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok
  await untilReady('the Auth emulator', child, answers, readyMs)
  return { url, host, pid: child.pid, close: () => child.kill('SIGTERM') }
}
