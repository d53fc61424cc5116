/** Secrets of the targets file are cut out of every text. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { containsSecret, redact } from '#services/access/secrets/redact.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'

const secret = 'p4ss/word+"ß"\\end'
const keys = {
  'agent key': `svc_${'0a'.repeat(32)}`,
  'gateway key': `vk_live_${'A-_9'.repeat(10)}abc`,
  'private key': '-----BEGIN PRIVATE KEY-----',
  'private key of another kind': '-----BEGIN OPENSSH PRIVATE KEY-----',
  'private RSA key': '-----BEGIN RSA PRIVATE KEY-----',
}

const hidden: [string, (text: string) => string][] = [
  ['as it is', (text) => `before ${text} after`],
  ['in JSON', (text) => JSON.stringify({ deep: [{ note: text }] })],
  ['as a name in JSON', (text) => JSON.stringify({ [text]: 1 })],
  ['in JSON inside of JSON', (text) => JSON.stringify({ log: JSON.stringify({ note: text }) })],
  ['in JSON three times over', (text) => JSON.stringify(JSON.stringify(JSON.stringify({ note: text })))],
  [
    'in escapes of every character',
    (text) =>
      [...Array(text.length).keys()]
        .map((n) => `\\u${text.charCodeAt(n).toString(16).padStart(4, '0')}`)
        .join(''),
  ],
  ['in an address', (text) => `https://a.example/?q=${encodeURIComponent(text)}`],
  ['in escapes that nothing needs', (text) => JSON.stringify(text).replaceAll('/', '\\/')],
]

test.each(hidden)('a secret of the targets file is found %s', (_, hide) => {
  expect(containsSecret(hide(secret), ['another-one', secret])).toBe(true)
  expect(containsSecret(hide('nothing of that kind'), [secret])).toBe(false)
})

test.each(Object.entries(keys).flatMap(([kind, key]) => hidden.map(([how, hide]) => [kind, how, hide(key)])))(
  'an %s is found %s',
  (_, __, text) => {
    expect(containsSecret(text as string, [])).toBe(true)
  },
)

test.each([
  `svc_${'0a'.repeat(31)}`,
  `svc_${'0A'.repeat(32)}`,
  'vk_live_short',
  '-----BEGIN PUBLIC KEY-----',
  '-----BEGIN CERTIFICATE-----',
  'vk_live_ and svc_ are prefixes',
  '100 %',
  'C:\\new\\table',
])('%j is no secret', (text) => {
  expect(containsSecret(text, [secret])).toBe(false)
})

test('cutting leaves nothing that could be found, and everything else as it was', () => {
  expect(redact(`a ${secret} b ${keys['agent key']} c`, [secret])).toBe('a [cut] b [cut] c')
  for (const [, hide] of hidden) {
    const text = redact(hide(secret), [secret])
    expect(containsSecret(text, [secret])).toBe(false)
  }
  expect(redact('nothing here', [secret])).toBe('nothing here')
})

test('a secret that is part of another one does not save its rest', () => {
  expect(redact('tokentoken-and-more', ['tokentoken', 'tokentoken-and-more'])).toBe('[cut]')
})

test('of any text around a secret the secret is found and cut', () => {
  const noise = fc.string({ unit: 'binary', maxLength: 40 })
  const secrets = fc.string({ minLength: 8, maxLength: 40 }).filter((text) => !/^\s+$/.test(text))
  fc.assert(
    fc.property(noise, secrets, noise, (before, own, after) => {
      const text = JSON.stringify(before + own + after)
      const plain = before + own + after
      expect(containsSecret(plain, [own])).toBe(true)
      // Its replacement could contain a shorter one.
      if (own.length > '[cut]'.length * 2) expect(redact(plain, [own])).not.toContain(own)
      expect(containsSecret(text, [own])).toBe(true)
    }),
    { numRuns: propertyRuns(300) },
  )
})
