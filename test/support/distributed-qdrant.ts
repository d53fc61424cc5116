/** A Qdrant of one test file's own, which is killed and started again on its port and storage. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  freePort,
  removeAtEnd,
  type ServerChild,
  startChild,
  untilReady,
} from '../../scripts/servers/children.ts'
import { findQdrant } from '../../scripts/servers/qdrant.ts'

export interface OwnQdrant {
  url: string
  kill9(): Promise<void>
  /** Resolves when it serves again what it held. */
  start(): Promise<void>
}

/** Null, and one line that says so, where no qdrant executable is on the PATH. */
export async function openOwnQdrant(): Promise<OwnQdrant | null> {
  const executable = findQdrant()
  if (executable === null) {
    console.error(
      '\n*** No qdrant executable on the PATH: this file runs on the EMBEDDED vector engine. ***\n',
    )
    return null
  }
  const folder = mkdtempSync(join(tmpdir(), 'fl-qdrant-'))
  removeAtEnd(folder)
  const [port, grpcPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  let child: ServerChild | undefined
  async function start(): Promise<void> {
    child = startChild(executable as string, [], {
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
    const ready = () => fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })
    await untilReady('Qdrant', child, async () => (await ready()).ok)
  }
  await start()
  return { url, start, kill9: async () => child?.kill('SIGKILL') }
}
