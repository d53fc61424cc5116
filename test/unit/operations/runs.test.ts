/** What operators learn of a run that no node took: where its node is, and why it does not answer. */

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { explainedError, nodeFault } from '#operations/runs.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const { signal } = new AbortController()
const error = { code: 'node_unavailable', message: 'No node took the run in time.', retryable: true } as const

/** A platform whose nodes file names SCOUT at `url`. */
function platformWith(url: string, states: { slug: string; status: string }[] = []) {
  const file = join(temporaryFolder(), 'nodes.yaml')
  writeFileSync(
    file,
    `nodes:\n  scout: {url: "${url}/a-secret-path", headers: {authorization: Bearer s3cret-s3cret}}\n`,
  )
  const relational = { query: async () => ({ rows: states }) }
  return { env: { RUN_NODES_FILE: file }, engines: { relational } } as never
}

async function serve(status: number, text: string): Promise<string> {
  const server = createServer((_, answer) => answer.writeHead(status).end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a node that does not listen is named with its host and the reason, and nothing secret', async () => {
  const platform = platformWith('http://127.0.0.1:1')
  const explained = await explainedError({ platform, signal }, { agent: 'SCOUT', error })
  expect(explained).toEqual({
    ...error,
    message: 'No node took the run in time: its node at 127.0.0.1:1 does not answer (connection refused).',
  })
})

test('a node that refuses, or serves another app', async () => {
  const refusing = await serve(401, '')
  expect(await nodeFault(platformWith(refusing), 'scout', signal)).toBe(
    `its node at ${new URL(refusing).host} answered HTTP 401`,
  )
  const other = await serve(200, '["whale"]')
  expect(await nodeFault(platformWith(other), 'SCOUT', signal)).toBe(
    `its node at ${new URL(other).host} has no app scout`,
  )
})

test('a node that answers has no fault, one that is known to is not asked, and other errors stay', async () => {
  expect(await nodeFault(platformWith(await serve(200, '["scout"]')), 'SCOUT', signal)).toBeNull()
  const up = platformWith('http://127.0.0.1:1', [{ slug: 'scout', status: 'up' }])
  expect(await nodeFault(up, 'SCOUT', signal)).toBeNull()
  expect(await nodeFault(up, 'NOBODY', signal)).toBeNull()
  const platform = platformWith('http://127.0.0.1:1')
  const failed = { ...error, code: 'agent_error' } as const
  expect(await explainedError({ platform, signal }, { agent: 'SCOUT', error: failed })).toBe(failed)
})
