/** The audit: every changing route and every changing command leaves a row and a record, however it ends. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import { type ListedAction, listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { rbac } from '#services/main-api/rbac.ts'
import { adminAudit } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { recordsOf } from '../support/log-reading.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'

let api: MainApiPlatform
let adminUid: string
beforeAll(async () => {
  api = await openMainApiPlatform()
  const { json } = await api.call('GET', '/api/v1/me', { token: await api.tokenFor('admin') })
  adminUid = (json.data as { uid: string }).uid
})
afterAll(() => api?.close())

let requests = 0
/** As an admin; resolves with the status, and with the actions that the request left. */
async function change(method: string, path: string, body?: unknown) {
  const requestId = `audit-${++requests}`
  const token = await api.tokenFor('admin')
  const headers = { 'x-request-id': requestId }
  const answer = await api.call(method, `/api/v1${path}`, {
    token,
    headers,
    ...(body === undefined ? {} : { body }),
  })
  const { actions } = await listAdminActions(api.platform.engines.relational, { limit: 20 })
  const own = actions.filter(({ request_id }) => request_id === requestId)
  for (const { actor } of own) expect(actor).toEqual({ kind: 'agent', id: adminUid })
  return { status: answer.status, json: answer.json, text: answer.text, actions: own }
}

/** The record of an action, once the outbox has published it. */
function recordOf({ id }: ListedAction) {
  return eventually('its record is there', async () => {
    const found = await recordsOf(api.platform, adminAudit)
    return found.find(({ headers }) => headers['event-id'] === id)
  })
}

describe('a change over HTTP', () => {
  test('records the old and the new state, and never a secret', async () => {
    const made = await change('POST', '/agents', { agent_id: 'kept', role: 'a' })
    expect(made.actions).toMatchObject([
      {
        action: 'agent.provision',
        target: 'kept',
        outcome: 'done',
        before: null,
        after: { agent_id: 'kept', role: 'a', public_key_fingerprint: expect.stringMatching(/^SHA256:/) },
      },
    ])
    const updated = await change('PATCH', '/agents/KEPT', { role: 'b', burst: 3 })
    expect(updated.actions).toMatchObject([
      {
        action: 'agent.update',
        target: 'kept',
        before: { role: 'a', burst: null },
        after: { role: 'b', burst: 3 },
      },
    ])
    const rotated = await change('POST', '/agents/kept/rotate', {})
    const [rotation] = rotated.actions
    expect(rotation).toMatchObject({ action: 'agent.rotate', outcome: 'done' })
    const { before, after } = rotation as unknown as Record<'before' | 'after', Record<string, string>>
    expect(before.public_key_fingerprint).not.toBe(after.public_key_fingerprint)
    const issued = await change('POST', '/agent-keys', { agent_id: 'kept', label: 'x' })
    const { id, key } = issued.json.data as { id: string; key: string }
    expect(issued.actions).toMatchObject([
      { action: 'agent-key.issue', target: 'kept', after: { id, label: 'x' } },
    ])
    const revoked = await change('DELETE', `/agent-keys/${id}`)
    expect(revoked.actions).toMatchObject([{ action: 'agent-key.revoke', target: id, outcome: 'done' }])
    const deleted = await change('DELETE', '/agents/kept')
    expect(deleted.actions).toMatchObject([
      { action: 'agent.delete', target: 'kept', before: { agent_id: 'kept' }, after: null },
    ])
    const all = [made, updated, rotated, issued, revoked, deleted].flatMap(({ actions }) => actions)
    for (const action of all) {
      const record = await recordOf(action)
      expect(record).toMatchObject({
        key: adminUid,
        headers: { 'request-id': action.request_id },
        value: { actor_kind: 'agent', actor: adminUid, action: action.action, outcome: 'done' },
      })
    }
    const kept = JSON.stringify([all, await recordsOf(api.platform, adminAudit)])
    const privateKeys = [made, rotated].map(({ json }) => (json.data as { private_key: string }).private_key)
    for (const secret of [key, ...privateKeys.map((pem) => pem.split('\n')[1]!), 'PRIVATE KEY']) {
      expect(kept).not.toContain(secret)
    }
  })

  /** Well-formed requests about things that do not exist. Add new changing routes here, too. */
  const refused: Record<string, { path: string; body?: unknown }> = {
    'POST /api/v1/agent-keys': { path: '/agent-keys', body: { agent_id: 'nobody' } },
    'DELETE /api/v1/agent-keys/:id': { path: `/agent-keys/ak_${'0'.repeat(26)}` },
    'POST /api/v1/agents': { path: '/agents', body: { agent_id: 'AN-ADMIN' } },
    'PATCH /api/v1/agents/:agent_id': { path: '/agents/nobody', body: { role: 'x' } },
    'DELETE /api/v1/agents/:agent_id': { path: '/agents/nobody' },
    'POST /api/v1/agents/:agent_id/rotate': { path: '/agents/nobody/rotate', body: {} },
    'DELETE /api/v1/collections/:collection': { path: '/collections/nothing' },
    'POST /api/v1/users': { path: '/users', body: { email: 'ADMIN@localhost' } },
    'PATCH /api/v1/users/:user': { path: '/users/nobody@x', body: { role: 'viewer' } },
    'DELETE /api/v1/users/:user': { path: '/users/nobody@x' },
    'POST /api/v1/dead-letters/replay': {
      path: '/dead-letters/replay',
      body: { filter: { topic: 'audit.events' } },
    },
    'POST /api/v1/dead-letters/discard': {
      path: '/dead-letters/discard',
      body: { filter: { key: 'nothing' } },
    },
    'POST /api/v1/webhooks/targets/:name/skip': { path: '/webhooks/targets/nobody/skip' },
  }
  const changing = Object.entries(rbac).filter(
    ([name, least]) => least === 'admin' && !name.startsWith('GET '),
  )

  test.each(changing.map(([name]) => name))('%s leaves its refusal', async (name) => {
    expect(Object.keys(refused)).toContain(name)
    const { path, body } = refused[name]!
    const { status, json, actions } = await change(name.split(' ')[0]!, path, body)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(actions).toMatchObject([{ outcome: 'refused', reason: json.code }])
    expect(await recordOf(actions[0]!)).toMatchObject({ value: { outcome: 'refused', reason: json.code } })
  })

  test('that the role does not allow is noted, too', async () => {
    const token = await api.tokenFor('viewer')
    const { json } = await api.call('GET', '/api/v1/me', { token })
    const { uid } = json.data as { uid: string }
    for (let n = 0; n < 3; n++) {
      const refused = await api.call('DELETE', '/api/v1/agents/an-admin', { token })
      expect(refused.status).toBe(403)
    }
    expect((await api.call('GET', '/api/v1/audit', { token })).status).toBe(403)
    const own = await eventually('it is noted', async () => {
      const { actions } = await listAdminActions(api.platform.engines.relational, { limit: 10, actor: uid })
      return actions.length > 0 && actions
    })
    expect(own).toMatchObject([
      { target: 'DELETE /api/v1/agents/:agent_id', outcome: 'refused', reason: 'forbidden' },
    ])
  })

  test('that changes nothing leaves nothing', async () => {
    const dry = await change('POST', '/dead-letters/discard', {
      filter: { topic: 'audit.events' },
      dry_run: true,
    })
    expect(dry).toMatchObject({ status: 200, actions: [] })
    expect(await change('GET', '/agents')).toMatchObject({ status: 200, actions: [] })
  })
})

describe('a change by the command line', () => {
  const handle = () => createControlHandler(operations)(api.platform)
  const output = { item() {}, progress() {} }
  /** Well-formed arguments about things that do not exist. Add new changing commands here, too. */
  const refused: Record<string, unknown> = {
    'agents provision': { agent_id: '..' },
    'agents update': { agent_id: 'nobody', role: 'x' },
    'agents rotate': { agent_id: 'nobody' },
    'agents delete': { agent_id: 'nobody' },
    'agents clear': { agent_id: 'nobody' },
    'collections create': { name: 'posts' },
    'collections delete': { collection: 'nothing' },
    remember: { text: 'x', collection: 'nothing' },
    'agent-keys issue': { agent_id: 'nobody' },
    'agent-keys revoke': { id: 'ak_none' },
    'users add': { email: 'no mail' },
    'users role': { user: 'nobody@x', role: 'viewer' },
    'users remove': { user: 'nobody@x' },
    'dead-letters replay': { filter: { key: 'nothing' } },
    'dead-letters discard': { filter: { key: 'nothing' } },
    'webhooks dead-letters replay': { target: 'nobody' },
    'webhooks dead-letters discard': { target: 'nobody' },
    'webhooks skip': { name: 'nobody' },
    'webhooks forget': { name: 'nobody', force: false },
    'groups reset': { group: 'nobody', to: 'end' },
    'groups skip': { group: 'nobody', partition: 0, offset: 0 },
    'topics grow': { topic: 'audit.events', partitions: 24 },
    'notes add': { subject: 's', body: 'b', author: 'nobody' },
    'notes reply': { parent_id: 999_999, body: 'b' },
    'goals add': { title: 't', author: 'nobody' },
    'goals set': { id: 999_999, status: 'active' },
    'runs start': { agent: 'nobody', text: 't' },
    dispatch: { text: '' },
    'runs answer': { id: `run_${'0'.repeat(32)}`, text: 'x' },
    'runs cancel': { id: `run_${'0'.repeat(32)}` },
    'sessions delete': { id: 'nothing' },
    'schedules add': { agent: 'nobody', text: 't', cron: '* * * * *' },
    'schedules pause': { id: 'nothing' },
    'schedules resume': { id: 'nothing' },
    'schedules remove': { id: 'nothing' },
  }
  /** They do something whenever they are asked. */
  const done: Record<string, unknown> = { 'secrets-rotate': {}, 'rebuild vectors': {}, 'rebuild notes': {} }
  const elsewhere = ['rebuild relational', 'rebuild embeddings']
  const changing = operations.filter(({ action }) => action !== undefined).map(({ name }) => name)

  test.each(changing)(
    '%s leaves who asked for it',
    async (operation) => {
      if (elsewhere.includes(operation)) return
      expect(Object.keys({ ...refused, ...done })).toContain(operation)
      const user = `user of ${operation}`
      const args = refused[operation] ?? done[operation]
      const asked = handle()({ operation, args, user }, output, new AbortController().signal)
      const [ended] = await Promise.allSettled([asked])
      const { actions } = await listAdminActions(api.platform.engines.relational, { limit: 10, actor: user })
      const action = operations.find(({ name }) => name === operation)!.action
      expect(actions).toMatchObject([
        {
          actor: { kind: 'command_line', id: user },
          action,
          outcome: operation in done ? 'done' : 'refused',
          reason: ended!.status === 'rejected' ? (ended!.reason as { code: string }).code : null,
        },
      ])
      expect(ended!.status).toBe(operation in done ? 'fulfilled' : 'rejected')
      expect(await recordOf(actions[0]!)).toMatchObject({ key: user, value: { actor_kind: 'command_line' } })
    },
    30_000,
  )
})

describe('the list', () => {
  const list = async (query: string) => {
    const answer = await api.call('GET', `/api/v1/audit${query}`, { token: await api.tokenFor('admin') })
    return answer.json.data as { actions: ListedAction[]; next: string | null }
  }

  test('is paged from the newest, and filtered', async () => {
    for (const n of [1, 2, 3]) await change('PATCH', '/agents/nobody', { role: `r${n}` })
    const whole = await list('?limit=50')
    const pages: ListedAction[] = []
    let next: string | null = null
    do {
      const page: Awaited<ReturnType<typeof list>> = await list(`?limit=2${next ? `&cursor=${next}` : ''}`)
      expect(page.actions.length).toBeLessThanOrEqual(2)
      pages.push(...page.actions)
      next = page.next
    } while (next !== null && pages.length < whole.actions.length)
    expect(pages.map(({ id }) => id)).toEqual(whole.actions.map(({ id }) => id))
    const times = whole.actions.map(({ occurred_at }) => occurred_at)
    expect(times).toEqual([...times].sort().reverse())
    const byActor = await list(`?actor=${adminUid}&action=agent.update&target=nobody`)
    expect(byActor.actions.length).toBeGreaterThanOrEqual(3)
    for (const { actor, action, target } of byActor.actions) {
      expect([actor.id, action, target]).toEqual([adminUid, 'agent.update', 'nobody'])
    }
    expect((await list("?actor=x'%20OR%201=1")).actions).toEqual([])
  })

  test.each([
    '?cursor=x',
    '?cursor=',
    '?limit=0x',
    '?limit=-1',
    '?limit=0',
    '?limit=1001',
    '?who=me',
    '?limit=1&limit=2',
    '?actor=',
  ])('refuses %s', async (query) => {
    const token = await api.tokenFor('admin')
    expect((await api.call('GET', `/api/v1/audit${query}`, { token })).status).toBe(422)
  })
})
