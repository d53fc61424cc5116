/** TLS between this process and servers: certificates that it shows, and faults in words: waiting never helps against them. */

import { readFileSync } from 'node:fs'
import { AppError } from './errors.ts'

const depthMax = 8

const authority = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]
const time = ['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']
const name = ['ERR_TLS_CERT_ALTNAME_INVALID']
/** What the server says of the certificate that it got, or did not get. */
const refused = [
  'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
  'ERR_SSL_TLSV1_ALERT_CERTIFICATE_REQUIRED',
  'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
]
const plain = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']

/** Null where neither it nor one of its causes is such a fault. `certificate` names the settings of a client certificate. */
export function tlsFault(error: unknown, certificate: string | null) {
  const code = codeOf(error)
  if (code === undefined) return null
  if (authority.includes(code)) {
    return {
      found: `Its certificate is signed by an authority that is not known here (${code}).`,
      advice: 'Name the PEM file of that authority in NODE_EXTRA_CA_CERTS.',
    }
  }
  if (time.includes(code)) {
    return { found: `Its certificate is not valid now (${code}).`, advice: 'Renew it, or set the clock.' }
  }
  if (name.includes(code)) {
    return {
      found: `Its certificate is for another name (${code}).`,
      advice: 'Use the name of the certificate in the address, or have a certificate made for this one.',
    }
  }
  if (refused.includes(code)) {
    return {
      found: `It wants a client certificate, and was shown none that it trusts (${code}).`,
      advice: certificate ? `Name certificate and key in ${certificate}.` : 'Have it ask for none.',
    }
  }
  return {
    found: `It does not speak TLS at this address (${code}).`,
    advice: 'Correct the address, or use no TLS.',
  }
}

/** The code of the first cause that is such a fault. */
function codeOf(error: unknown, depth = 0): string | undefined {
  if (!(error instanceof Error) || depth === depthMax) return undefined
  const { code, errors } = error as { code?: unknown; errors?: unknown }
  if (
    typeof code === 'string' &&
    [authority, time, name, refused, plain].some((codes) => codes.includes(code))
  )
    return code
  for (const inner of [error.cause, ...(Array.isArray(errors) ? errors : [])]) {
    const found = codeOf(inner, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

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

/**
 * Asks a server by TLS alone what it has against this client: with TLS 1.3 it refuses a client's certificate after the
 * handshake, and clients of engines say no more of it than that the connection was closed. The fault of the connection; null
 * when it stays open, or does not come about, for `timeoutMs`. Sends nothing.
 */
export function probeTls({ host, port, certificate }: TlsAddress, timeoutMs: number): Promise<Error | null> {
  return new Promise((resolve) => {
    // Loaded when it is needed: settings are read by every command.
    const socket = process
      .getBuiltinModule('node:tls')
      .connect({ host, port, servername: host, ...certificate })
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

/** The texts of the PEM files. */
export interface ClientCertificate {
  cert: string
  key: string
}

interface NamedFiles {
  certificate: string | undefined
  key: string | undefined
  /** The names of the two settings. */
  names: readonly [string, string]
}

/** Null where none is named. Throws AppError `invalid_configuration`: one of two alone, or a file that cannot be read. */
export function readClientCertificate({ certificate, key, names }: NamedFiles): ClientCertificate | null {
  if (!certificate && !key) return null
  if (!certificate || !key) {
    throw new AppError('invalid_configuration', `${names.join(' and ')} belong together: set both or none.`)
  }
  return { cert: readPem(certificate, names[0]), key: readPem(key, names[1]) }
}

/** Throws AppError `invalid_configuration`, which names the setting and never the file's content. */
export function readPem(path: string, setting: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as { code?: string }
    throw new AppError('invalid_configuration', `${setting} names ${path}, which cannot be read (${code}).`)
  }
  if (text.includes('-----BEGIN ')) return text
  throw new AppError('invalid_configuration', `${setting} names ${path}, which is no PEM file.`)
}
