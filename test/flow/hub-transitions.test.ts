/** Every change of status of a note and a goal, by its author, and by every role that is not. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { accessLevels, updateAgent } from '#services/access/agents/agents.ts'
import { goalStatuses } from '#services/records/goals/goals.ts'
import { noteStatuses } from '#services/records/notes/notes.ts'
import { eventually } from '../support/eventually.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

let hub: HubPlatform
let author: string
beforeAll(async () => {
  hub = await openHubPlatform()
  author = await hub.keyOf('author')
})
afterAll(() => hub?.close())

const kinds = {
  goals: {
    made: { title: 'Ship it' },
    statuses: goalStatuses,
    allowed: ['pending>active', 'pending>canceled', 'active>completed', 'active>failed', 'active>canceled'],
  },
  fleet_notes: {
    made: { subject: 's', body: 'b' },
    statuses: noteStatuses,
    allowed: [
      'active>resolved',
      'active>archived',
      'resolved>active',
      'resolved>archived',
      'archived>active',
    ],
  },
} as const
const tables = { goals: 'platform.goals', fleet_notes: 'platform.notes' } as const

async function changed(kind: keyof typeof kinds, by: string, from: string, to: string, key: string) {
  const { json } = await hub.call('POST', `/${kind}/`, { key: by, body: kinds[kind].made })
  const { relational } = hub.platform.engines
  await relational.query(`update ${tables[kind]} set status = $2 where id = $1`, [Number(json.id), from])
  const { status, json: answer } = await hub.call('PATCH', `/${kind}/${json.id}`, {
    key,
    body: { status: to },
  })
  return status === 200 ? [status, answer.status] : [status, answer.code]
}

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])('/%s', (kind) => {
  const { statuses, allowed } = kinds[kind]
  const changes = statuses.flatMap((from) => statuses.map((to) => [from, to] as const))
  const expected = (from: string, to: string) =>
    from === to || (allowed as readonly string[]).includes(`${from}>${to}`)
      ? [200, to]
      : [409, 'invalid_transition']

  test.each(changes)('%s → %s by its author', async (from, to) => {
    expect(await changed(kind, author, from, to, author)).toEqual(expected(from, to))
  })

  describe.each(accessLevels)('by another with the role %s', (access) => {
    test.each(changes)('%s → %s', async (from, to) => {
      const key = await hub.keyFor(access)
      const answer = access === 'admin' ? expected(from, to) : [403, 'forbidden']
      expect(await changed(kind, author, from, to, key)).toEqual(answer)
    })
  })

  test('an author who became a viewer may not any more', async () => {
    const id = `former-${kind.replace('_', '-')}`
    const key = await hub.keyOf(id)
    const { json } = await hub.call('POST', `/${kind}/`, { key, body: kinds[kind].made })
    await updateAgent(hub.platform.engines.relational, id, { access: 'viewer' })
    await eventually('its new role', async () => {
      const answer = await hub.call('PATCH', `/${kind}/${json.id}`, { key, body: { priority: 'low' } })
      return (answer.status === 403 && answer.json.code === 'forbidden') || undefined
    })
    const shown = await hub.call('GET', `/${kind}/${json.id}`, { key })
    expect([shown.status, shown.json.author]).toEqual([200, id])
  })
})
