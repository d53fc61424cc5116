/** Writes a private key to the agent's own volume: mode 0600, and never over another key by mistake. */

import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { AppError } from '#lib/errors.ts'

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
 * Runs `work`, which gives a private key, and leaves the key as `ed25519.pem` (PKCS#8 PEM, 0600) in the directory, which
 * is made (0700) when missing. The folder is tried out before `work` runs, so that no agent is left without its key.
 * Throws AppError `conflict` when a key is there and `force` is not set.
 */
export async function placePrivateKey<T extends { privateKeyPem: string }>(
  place: KeyPlace,
  work: () => Promise<T>,
): Promise<Omit<T, 'privateKeyPem'> & { privateKeyFile: string }> {
  const file = resolve(place.directory, fileName)
  if (!place.force && existsSync(file)) throw keyExists(file)
  mkdirSync(place.directory, { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, '', { mode: 0o600, flag: 'wx' })
  let result: T
  try {
    result = await work()
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
  const { privateKeyPem, ...rest } = result
  writeFileSync(draft, privateKeyPem, { mode: 0o600, flush: true })
  settle(draft, file, place.force === true)
  return { ...rest, privateKeyFile: file }
}

/** A link, unlike a rename, refuses a name that is taken; then the key stays where it is, because it is in force. */
function settle(draft: string, file: string, force: boolean): void {
  if (force) {
    renameSync(draft, file)
    return
  }
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new AppError('conflict', `${file} appeared meanwhile: the new key is in ${draft}.`)
  }
  rmSync(draft)
}

function keyExists(file: string): AppError {
  return new AppError(
    'conflict',
    `${file} holds a key already: choose another volume, or replace it with --force.`,
  )
}
