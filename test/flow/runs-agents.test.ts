/** The agents that the run gateway knows, for every credential, and in any case. */

import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { message, openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
  platform.writeNodes({
    whale: { url: platform.node.url, role: 'Deep analysis', skills: ['Long texts', 'Passages'] },
    scout: { url: 'http://127.0.0.1:1', codename: 'SCOUT_7' },
    agents: { url: platform.node.url, app: 'pulse' },
  })
  await eventually('the nodes are taken up', async () => {
    const list = (await platform.call('GET', '/agents')).json as unknown as { up: boolean }[]
    return list.length === 3 && list[0]!.up
  })
})
afterAll(() => platform?.close())

const whale = {
  slug: 'whale',
  codename: 'WHALE',
  role: 'Deep analysis',
  protocol: 'adk',
  up: true,
  lastSeen: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  skills: ['Long texts', 'Passages'],
}
const scout = {
  slug: 'scout',
  codename: 'SCOUT_7',
  role: '',
  protocol: 'adk',
  up: false,
  lastSeen: null,
  skills: [],
}

it.each(['viewer', 'member', 'admin'] as const)('a %s sees all of them, and each one', async (access) => {
  const key = await platform.keyFor(access)
  const all = await platform.call('GET', '/agents', { key })
  expect([all.status, all.json]).toMatchObject([200, [whale, scout, { slug: 'agents' }]])
  for (const slug of ['whale', 'WHALE', 'Whale']) {
    expect((await platform.call('GET', `/agents/${slug}`, { key })).json).toEqual(whale)
  }
  expect((await platform.call('GET', '/agents/SCOUT', { key })).json).toEqual(scout)
})

it('a person sees them, too, and nobody without a credential', async () => {
  const key = await platform.tokenFor('viewer')
  expect((await platform.call('GET', '/agents', { key })).json).toMatchObject([
    whale,
    scout,
    { slug: 'agents' },
  ])
  const none = await platform.call('GET', '/agents', { key: 'vk_live_x' })
  expect([none.status, none.json.code]).toEqual([401, 'unauthorized'])
})

it.each(['nobody', 'SCOUT_7', '%00', 'a%2Fb', '__proto__'])('%s is no agent', async (slug) => {
  const answer = await platform.call('GET', `/agents/${slug}`)
  expect([answer.status, answer.json.code]).toEqual([404, 'agent_not_found'])
  expect(answer.json.detail).toContain('There are whale, scout, agents.')
})

it('a message reaches an agent in any case, and its runs are one lane', async () => {
  for (const slug of ['whale', 'WHALE', 'wHaLe']) {
    const fields = { sessionId: 'any-case' }
    const answer = await platform.run(slug, slug, { fields })
    expect(talkOf(answer)).toEqual([`WHALE: whale heard: ${slug}`])
  }
  const { json } = await platform.call('GET', '/runs?sessionId=any-case')
  const runs = json as unknown as { appName: string }[]
  expect(runs.map(({ appName }) => appName)).toEqual(['WHALE', 'WHALE', 'WHALE'])
})

it('one may be called agents', async () => {
  expect(talkOf(await platform.run('agents', 'hello'))).toEqual(['AGENTS: pulse heard: hello'])
  expect((await platform.call('GET', '/agents/agents')).json.codename).toBe('AGENTS')
})

it('a key belongs to the agent, however its path is written', async () => {
  const headers = { 'idempotency-key': 'one-agent' }
  const body = { newMessage: message('once') }
  const first = await platform.call('POST', '/whale/run', { body, headers })
  const second = await platform.call('POST', '/WHALE/run', { body, headers })
  expect(second.headers.get('x-run-id')).toBe(first.headers.get('x-run-id'))
})

it('a node that goes away is not up any more, and was last seen before', async () => {
  onTestFinished(() => platform.node.up())
  await platform.node.down()
  const { relational } = platform.platform.engines
  await eventually('it is down', async () => {
    await relational.query(`update platform.run_nodes set away_since = now() - interval '20 seconds'
      where slug = 'whale' and away_since is not null`)
    return (await platform.call('GET', '/agents/whale')).json.up === false
  })
  expect((await platform.call('GET', '/agents/whale')).json.lastSeen).toEqual(whale.lastSeen)
})
