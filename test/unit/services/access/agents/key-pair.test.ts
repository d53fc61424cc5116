/** A private key is on the disk before the agent's record changes. */

import { spawnSync } from 'node:child_process'
import { createPrivateKey } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { placePrivateKey } from '#services/access/agents/key-pair.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

const child = fileURLToPath(new URL('../../../../support/full-disk-child.ts', import.meta.url))

test.skipIf(process.platform === 'win32')(
  'a disk that takes nothing: the old key stays, the record does not change, nothing is left',
  () => {
    const directory = temporaryFolder()
    writeFileSync(join(directory, 'ed25519.pem'), 'the old key')
    // A limit on the size of files acts as a full disk: the file can be made, but takes no byte.
    const limited = 'trap "" XFSZ; ulimit -f 0; exec "$0" "$@"'
    const { stdout } = spawnSync('sh', ['-c', limited, process.execPath, child, directory], {
      encoding: 'utf8',
      timeout: 20_000,
    })
    expect(JSON.parse(stdout)).toEqual({
      changed: false,
      message: expect.stringMatching(/cannot be written .*Nothing was changed/),
    })
    expect(readdirSync(directory)).toEqual(['ed25519.pem'])
    expect(readFileSync(join(directory, 'ed25519.pem'), 'utf8')).toBe('the old key')
  },
)

test('the whole key is in the folder while the record changes', async () => {
  const directory = temporaryFolder()
  let found: string[] = []
  const { privateKeyFile } = await placePrivateKey({ directory }, async () => {
    found = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
    return {}
  })
  expect(found).toEqual([readFileSync(privateKeyFile, 'utf8')])
  expect(createPrivateKey(found[0]!).asymmetricKeyType).toBe('ed25519')
})

test('a folder that cannot be made is named before anything changes', async () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  const placing = placePrivateKey({ directory: join(file, 'volume') }, async () => {
    throw new Error('the record was changed')
  })
  await expect(placing).rejects.toMatchObject({
    code: 'invalid_configuration',
    message: expect.stringContaining('Nothing was changed'),
  })
})
