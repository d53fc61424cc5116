/** A hub that stops, and one whose keys run out: open streams end in order. */

import { expect, onTestFinished, test } from 'vitest'
import { readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { openHubPlatform } from '../support/hub-platform.ts'

test('a stream ends when its gateway key runs out, and all end when the hub stops', async () => {
  const hub = await openHubPlatform({ GATEWAY_KEY_TTL_S: '3' })
  let closed = false
  onTestFinished(async () => {
    if (!closed) await hub.close()
  })
  const token = await hub.idTokenOf('long')
  const short = await readEvents(`${hub.hubUrl}/goals/events`, { token: await hub.keyOf('short') })
  const long = await readEvents(`${hub.hubUrl}/goals/events`, { token })
  expect([short.status, long.status]).toEqual([200, 200])
  expect(await short.over).toBe(true)
  expect(short.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'token_expired' } })
  await eventually('the beginning', async () => long.events.length > 0 || undefined)
  expect(long.events.map(({ event }) => event)).toEqual(['ready'])
  closed = true
  await hub.close()
  expect(await long.over).toBe(true)
  expect(long.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'shutting_down' } })
})
