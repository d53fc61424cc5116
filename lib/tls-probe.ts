/**
 * Asks a server by TLS alone what it has against this client. With TLS 1.3 a server refuses a client's certificate after the
 * handshake, and clients of engines say no more of it than that the connection was closed.
 */

import { connect } from 'node:tls'
import type { ClientCertificate } from './client-certificate.ts'

interface TlsAddress {
  host: string
  port: number
  certificate: ClientCertificate | null
}

/** An engine that is reached over TLS. */
export interface TlsEngine {
  engine: 'eventLog' | 'schemaRegistry' | 'vectors' | 'relational'
  /** Holds its address. */
  variable: string
  /** Settings of the client certificate; null: its driver shows none. */
  certificateSettings: string | null
  /** Where TLS begins with the connection; null: its driver passes on what the server says. */
  address: TlsAddress | null
}

/** The fault of the connection; null when it stays open, or does not come about, for `timeoutMs`. Sends nothing. */
export function probeTls({ host, port, certificate }: TlsAddress, timeoutMs: number): Promise<Error | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, servername: host, ...certificate })
    const timer = setTimeout(() => end(null), timeoutMs)
    const end = (fault: Error | null) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(fault)
    }
    socket.on('error', end)
    socket.once('close', () => end(null))
    // Without a reader the server's alert would not be read.
    socket.resume()
  })
}
