/** Each package, packed and installed into an empty folder, works there without the platform. */

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { installedPackage as installed } from '../support/installed-package.ts'

const patient = { timeout: 180_000 }

function runScript(folder: string, script: string): unknown {
  const file = join(folder, 'script.js')
  writeFileSync(file, script)
  return JSON.parse(execFileSync(process.execPath, [file], { cwd: folder, encoding: 'utf8' }))
}

test('stidx builds and searches, as a command and as a library', patient, () => {
  const folder = installed('stidx')
  writeFileSync(join(folder, 'notes.jsonl'), '{"id":"a","title":"Blue deploy"}\n{"id":"b","title":"Whale"}\n')
  const stidx = (...args: string[]) =>
    execFileSync(join(folder, 'node_modules/.bin/stidx'), args, { cwd: folder, encoding: 'utf8' })
  stidx('index-jsonl', '--input', 'notes.jsonl', '--output', 'index.stidx')
  expect(JSON.parse(stidx('search', 'deploy', '--json'))).toMatchObject({ total: 1, results: [{ id: 'a' }] })
  const found = runScript(
    folder,
    `import { openIndex } from '@flotilla/stidx'
     import { buildIndex } from '@flotilla/stidx/build'
     const { records } = buildIndex({ input: 'notes.jsonl', output: 'own.stidx' })
     const index = openIndex('own.stidx')
     console.log(JSON.stringify([records, index.search('whale').results.map(({ id }) => id)]))`,
  )
  expect(found).toEqual([2, ['b']])
})

test('the client is imported without local search, and says so where it is needed', patient, () => {
  const folder = installed('client')
  const answer = runScript(
    folder,
    `import { createClient, ProblemError } from '@flotilla/client'
     import { createReceiver } from '@flotilla/client/webhook-receiver'
     import { verifyWebhook } from '@flotilla/client/webhook-signature'
     import { createWebhookClient } from '@flotilla/client/webhooks'
     const client = createClient({ vectorUrl: 'http://127.0.0.1:9', attemptsMax: 1, localIndex: 'index.stidx' })
     const health = await client.health().catch((error) => [error instanceof ProblemError, error.message])
     const found = await client.find('blue').catch((error) => error.message)
     await client.close()
     const functions = [createReceiver, verifyWebhook, createWebhookClient].map((one) => typeof one)
     console.log(JSON.stringify({ health, found, functions }))`,
  )
  expect(answer).toEqual({
    health: [true, expect.stringMatching(/^no_answer: the connection to 127\.0\.0\.1:9 failed/)],
    found: 'find needs the package @flotilla/stidx: install it',
    functions: ['function', 'function', 'function'],
  })
})
