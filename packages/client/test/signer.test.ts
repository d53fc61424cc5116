/** Signatures of any runtime are those of Node; a key that cannot sign is refused in words that show nothing of it. */

import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { expect, test } from 'vitest'
import { signerOf } from '../src/signer.ts'

const pemOf = (der: Buffer) =>
  `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n`

test('Node verifies what it signs, also with a key of PKCS#8 version 2 and Windows line ends', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const der = privateKey.export({ type: 'pkcs8', format: 'der' })
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
  const second = Buffer.concat([
    Buffer.from('3051020101300506032b657004220420', 'hex'),
    der.subarray(-32),
    Buffer.from('812100', 'hex'),
    raw,
  ])
  const pems = [pemOf(der), pemOf(der).replaceAll('\n', '\r\n'), pemOf(second)]
  for (const pem of pems) {
    const signature = Buffer.from(await signerOf(pem)('nonces ü'), 'hex')
    expect(verify(null, Buffer.from('nonces ü'), createPublicKey(privateKey), signature)).toBe(true)
  }
})

test('another key is refused without a word of it', () => {
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const faults = [
    [ec.export({ type: 'pkcs8', format: 'pem' }) as string, 'the private key is no Ed25519 key'],
    [ec.export({ type: 'sec1', format: 'pem' }) as string, 'the private key is no PKCS#8 PEM'],
    ['', 'the private key is no PKCS#8 PEM'],
    ['-----BEGIN PRIVATE KEY-----\n=secret\n-----END PRIVATE KEY-----', 'the private key is no PKCS#8 PEM'],
    [pemOf(Buffer.alloc(3)), 'the private key is no Ed25519 key'],
  ] as const
  for (const [pem, message] of faults) expect(() => signerOf(pem)).toThrow(new TypeError(message))
})
