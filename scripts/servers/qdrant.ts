/** Starts a Qdrant from an executable on the PATH, on free ports with a temporary storage folder. */

import { accessSync, constants, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { freePort, removeAtEnd, startChild, untilReady } from './children.ts'
import type { LocalServer } from './registry.ts'

/** The executable's full path, or null when it is not on the PATH. */
export function findQdrant(): string | null {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder || '.', 'qdrant')
    try {
      accessSync(file, constants.X_OK)
      return file
    } catch {
      // not in this folder
    }
  }
  return null
}

export async function openQdrant(executable: string): Promise<LocalServer & { grpcUrl: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-qdrant-'))
  removeAtEnd(folder)
  const [port, grpcPort] = [await freePort(), await freePort()]
  const child = startChild(executable, [], {
    logFile: join(folder, 'server.log'),
    cwd: folder,
    env: {
      QDRANT__SERVICE__HOST: '127.0.0.1',
      QDRANT__SERVICE__HTTP_PORT: String(port),
      QDRANT__SERVICE__GRPC_PORT: String(grpcPort),
      QDRANT__STORAGE__STORAGE_PATH: join(folder, 'storage'),
      QDRANT__STORAGE__SNAPSHOTS_PATH: join(folder, 'snapshots'),
      QDRANT__TELEMETRY_DISABLED: 'true',
    },
  })
  const url = `http://127.0.0.1:${port}`
  await untilReady(
    'Qdrant',
    child,
    async () => (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok,
  )
  return { url, grpcUrl: `http://127.0.0.1:${grpcPort}`, pid: child.pid, close: () => child.kill('SIGKILL') }
}
