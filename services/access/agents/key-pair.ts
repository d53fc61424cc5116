/** Ed25519 key pairs of agents: makes them, fingerprints them, checks signatures, and writes private keys to files. */

import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  verify,
} from 'node:crypto'
import { existsSync, linkSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { AppError, describeError } from '#lib/errors.ts'
import { makeFolder, syncPath } from '#lib/files.ts'
import { explainSystemFault, fileFaultCode } from '#lib/system-faults.ts'

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

const fileName = 'ed25519.pem'

export interface KeyPlace {
  directory: string
  /** Replaces a key that is there. */
  force?: boolean
}

/** Where an agent's key is kept when no volume is named. */
export function defaultKeyFile(home: string, agentId: string): string {
  return join(home, 'agents', agentId, fileName)
}

/**
 * Makes a key pair, writes its private key whole and synced as `ed25519.pem` (PKCS#8 PEM, 0600) in the directory, which is
 * made (0700) when missing, and runs `work` with it, which changes the agent's record. The file gets its name after the
 * change, so that a full disk or a refused change leaves the old key and the old record. Throws AppError `conflict` when a
 * key is there and `force` is not set, `storage_unavailable` when there is no room for it now, `invalid_configuration` when it
 * cannot be written at all.
 */
export async function placePrivateKey<T extends object>(
  place: KeyPlace,
  work: (key: AgentKey) => Promise<T>,
): Promise<Omit<T, 'privateKeyPem'> & { privateKeyFile: string }> {
  const file = resolve(place.directory, fileName)
  if (!place.force && existsSync(file)) {
    throw new AppError(
      'conflict',
      `${file} holds a key already: choose another volume, or replace it with --force.`,
    )
  }
  const key = generateAgentKey()
  const draft = writeDraft(file, key.privateKeyPem)
  let result: T & { privateKeyPem?: string }
  try {
    result = await work(key)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
  settle(draft, file, place.force === true)
  const { privateKeyPem: _, ...rest } = result
  return { ...rest, privateKeyFile: file }
}

/** Everything that needs space on the disk is done here; nothing is left behind where it fails. */
function writeDraft(file: string, text: string): string {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    makeFolder(dirname(file))
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true })
    syncPath(dirname(file))
    return draft
  } catch (error) {
    if (existsSync(draft)) rmSync(draft)
    const why = explainSystemFault(error) ?? describeError(error)
    throw new AppError(
      fileFaultCode(error),
      `The private key cannot be written to ${file}: ${why}. Nothing was changed.`,
      { cause: error },
    )
  }
}

/** The draft is the only copy of a key that is in force now: whatever fails, it stays. */
function settle(draft: string, file: string, force: boolean): void {
  try {
    // A link, unlike a rename, refuses a name that is taken.
    if (force) renameSync(draft, file)
    else linkSync(draft, file)
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const why = isTaken ? `${file} appeared meanwhile` : (explainSystemFault(error) ?? describeError(error))
    throw new AppError('conflict', `The agent has its new key, which is in ${draft}: ${why}.`)
  }
  if (!force) rmSync(draft)
  syncPath(dirname(file))
}
