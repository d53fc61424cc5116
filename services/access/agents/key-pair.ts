/** Ed25519 key pairs of agents: makes them, fingerprints them, checks signatures. */

import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, verify } from 'node:crypto'
import { promisify } from 'node:util'

export interface AgentKey {
  /** The 32 bytes of RFC 8032. */
  publicKey: Buffer
  fingerprint: string
  /** PKCS#8 PEM; never stored by the platform. */
  privateKeyPem: string
}

export function generateAgentKey(): AgentKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url')
  return {
    publicKey: raw,
    fingerprint: fingerprintOf(raw),
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}

/** As `ssh-keygen -lf` prints it: SHA-256 of the key in SSH's wire form (RFC 8709), base64 without padding. */
export function fingerprintOf(publicKey: Buffer): string {
  const blob = Buffer.concat([sshString(Buffer.from('ssh-ed25519')), sshString(publicKey)])
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replaceAll('=', '')}`
}

export function publicKeyObject(publicKey: Buffer): KeyObject {
  return createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') },
    format: 'jwk',
  })
}

const verifyInPool = promisify<null, Buffer, KeyObject, Buffer, boolean>(verify)

/**
 * True when `signature` (64 bytes) is this key's over the text's UTF-8 bytes. Runs in the thread pool: whoever sends
 * signatures has no credential yet, and must not hold up the event loop.
 */
export function isSignedBy(key: KeyObject, text: string, signature: Buffer): Promise<boolean> {
  return verifyInPool(null, Buffer.from(text, 'utf8'), key, signature)
}

function sshString(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
