/** Faults of TLS between this process and a server, in words: waiting never helps against them. */

interface TlsFault {
  found: string
  advice: string
}

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
export function tlsFault(error: unknown, certificate: string | null): TlsFault | null {
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
