/** How an agent is tested against a whole platform, with Node's test runner. docs/testing-agents.md explains it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '@flotilla/client'
import { startPlatform } from 'flotilla'

test('a note of one agent is found by another', { timeout: 60_000 }, async (t) => {
  await using platform = await startPlatform({ signal: t.signal })
  const writer = createClient({ ...platform.addresses, ...(await platform.provisionAgent('writer')) })
  const reader = createClient({
    ...platform.addresses,
    ...(await platform.provisionAgent('reader', { access: 'viewer' })),
  })
  const note = await writer.notes.create({ subject: 'Lamp of the lighthouse', body: 'It is broken.' })
  const { subject } = await reader.notes.get(note.id)
  assert.equal(subject, 'Lamp of the lighthouse')
  await assert.rejects(reader.notes.create({ subject: 'Ferry', body: 'It is late.' }), { code: 'forbidden' })
  await Promise.all([writer.close(), reader.close()])
})
