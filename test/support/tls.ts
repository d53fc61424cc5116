/** Certificates of a test, made by openssl, and a way with TLS to a server that has none. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { freePort } from '../../scripts/servers/children.ts'

export interface Certificates {
  /** PEM file of the authority that signed the certificates. */
  authority: string
  /** PEM file with the private key and the certificate for `localhost`. */
  server: string
  /** The same for another name. */
  elsewhere: string
  /** PEM files of a client. */
  client: { certificate: string; key: string }
  remove(): void
}

const opensslTimeoutMs = 30_000

/** Certificates of an authority that nobody else trusts. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'fl-tls-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, timeout: opensslTimeoutMs, stdio: 'pipe' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const days = ['-days', '2']
  const own = ['-keyout', 'ca.key', '-out', 'ca.pem', ...days, '-subj', '/CN=test authority']
  openssl('req', '-x509', ...newKey, ...own)
  const signer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
  const sign = (name: string, host: string): string => {
    openssl('req', ...newKey, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${host}`)
    writeFileSync(join(folder, 'names'), `subjectAltName=DNS:${host}`)
    const asked = ['-in', `${name}.csr`, ...signer, ...days, '-extfile', 'names', '-out', `${name}.crt`]
    openssl('x509', '-req', ...asked)
    const parts = ['key', 'crt'].map((kind) => readFileSync(join(folder, `${name}.${kind}`), 'utf8'))
    writeFileSync(join(folder, `${name}.pem`), parts.join(''))
    return join(folder, `${name}.pem`)
  }
  const [server, elsewhere] = [sign('server', 'localhost'), sign('elsewhere', 'elsewhere.example')]
  sign('client', 'flotilla')
  return {
    authority: join(folder, 'ca.pem'),
    server,
    elsewhere,
    client: { certificate: join(folder, 'client.crt'), key: join(folder, 'client.key') },
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
 * Ends TLS in front of a server of this machine; with `clientAuthority` clients must show a certificate that it signed. As `postgres` it answers the question that comes before the handshake there,
 * and refuses those that do not ask.
 */
export async function openTlsProxy(
  certificate: string,
  target: number,
  protocol: 'http' | 'postgres',
  clientAuthority?: string,
): Promise<TlsProxy> {
  const pem = readFileSync(certificate)
  const asking = clientAuthority
    ? { requestCert: true, rejectUnauthorized: true, ca: readFileSync(clientAuthority) }
    : {}
  const open = new Set<Socket>()
  const keep = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => open.delete(socket))
  }
  const join = (secure: Socket) => {
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
  // It takes over connections that are open already.
  const tls = createTlsServer({ key: pem, cert: pem, ...asking }, join)
  tls.on('tlsClientError', () => {})
  const secureOf = (client: Socket) => void tls.emit('connection', client)
  const listener = createServer((client) => {
    keep(client)
    if (protocol === 'http') return secureOf(client)
    client.once('data', (asked) => {
      if (!asked.equals(sslRequest)) return client.destroy()
      client.pause()
      client.write('S')
      secureOf(client)
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
