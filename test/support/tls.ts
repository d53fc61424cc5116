/** Certificates of a test, made by openssl, and a way with TLS to a server that has none. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { freePort } from '../../scripts/servers/children.ts'

export interface Certificates {
  /** PEM file of the authority that signed the certificate. */
  authority: string
  /** PEM file with the private key and the certificate for `localhost`. */
  server: string
  remove(): void
}

const opensslTimeoutMs = 30_000

/** Of an authority that nobody else trusts. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'fl-tls-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, timeout: opensslTimeoutMs, stdio: 'pipe' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=test authority',
  )
  openssl('req', ...newKey, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost')
  writeFileSync(join(folder, 'names'), 'subjectAltName=DNS:localhost')
  const signer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
  openssl(
    'x509',
    '-req',
    '-in',
    'server.csr',
    ...signer,
    '-days',
    '2',
    '-extfile',
    'names',
    '-out',
    'server.crt',
  )
  const server = join(folder, 'server.pem')
  const parts = ['server.key', 'server.crt'].map((name) => readFileSync(join(folder, name), 'utf8'))
  writeFileSync(server, parts.join(''))
  return {
    authority: join(folder, 'ca.pem'),
    server,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export interface TlsProxy {
  /** On `localhost`. */
  port: number
  close(): Promise<void>
}

/** The question of Postgres's clients for TLS: its length and its number. */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Ends TLS in front of a server of this machine. As `postgres` it answers the question that comes before the handshake there,
 * and refuses those that do not ask.
 */
export async function openTlsProxy(
  certificate: string,
  target: number,
  protocol: 'http' | 'postgres',
): Promise<TlsProxy> {
  const pem = readFileSync(certificate)
  const open = new Set<Socket>()
  const keep = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => open.delete(socket))
  }
  const join = (client: Socket) => {
    const secure = new TLSSocket(client, { isServer: true, key: pem, cert: pem })
    const server = connect(target, '127.0.0.1')
    for (const [one, other] of [
      [secure, server],
      [server, secure],
    ] as const) {
      keep(one)
      one.pipe(other)
      one.once('close', () => other.destroy())
    }
  }
  const listener = createServer((client) => {
    keep(client)
    if (protocol === 'http') return join(client)
    client.once('data', (asked) => {
      if (!asked.equals(sslRequest)) return client.destroy()
      client.pause()
      client.write('S')
      join(client)
    })
  })
  const port = await freePort()
  await new Promise<void>((resolve) => listener.listen(port, 'localhost', resolve))
  return { port, close: () => closeAll(listener, open) }
}

function closeAll(listener: Server, open: Set<Socket>): Promise<void> {
  for (const socket of open) socket.destroy()
  return new Promise((resolve) => listener.close(() => resolve()))
}
