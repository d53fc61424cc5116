/** A Qdrant of one test file's own, which is killed and started again on its port and storage. */

import { mkdtempSync } from 'node:fs'
import { connect } from 'node:net'
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
  grpcUrl: string
  kill9(): Promise<void>
  /** Resolves when it serves again what it held. */
  start(): Promise<void>
}

export interface QdrantLock {
  /** PEM files: a private key with its certificate for `localhost`, and the certificate of its authority. */
  tls?: { certificate: string; authority: string }
  apiKey: string
}

/** Null, and one line that says so, where no qdrant executable is on the PATH. With a key, and TLS, where they are given. */
export async function openOwnQdrant(lock?: QdrantLock): Promise<OwnQdrant | null> {
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
  const host = lock?.tls ? 'https://localhost' : 'http://127.0.0.1'
  const [url, grpcUrl] = [`${host}:${port}`, `${host}:${grpcPort}`]
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
        ...(lock ? lockOf(lock) : {}),
      },
    })
    await untilReady('Qdrant', child, () => (lock?.tls ? acceptsConnections(port) : isReady(url)))
  }
  await start()
  return { url, grpcUrl, start, kill9: async () => child?.kill('SIGKILL') }
}

async function isReady(url: string): Promise<boolean> {
  return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok
}

/** This process does not know the authority. */
function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', reject)
  })
}

function lockOf({ tls, apiKey }: QdrantLock): Record<string, string> {
  const key = { QDRANT__SERVICE__API_KEY: apiKey }
  if (!tls) return key
  return {
    ...key,
    QDRANT__SERVICE__ENABLE_TLS: 'true',
    QDRANT__TLS__CERT: tls.certificate,
    QDRANT__TLS__KEY: tls.certificate,
    QDRANT__TLS__CA_CERT: tls.authority,
  }
}
