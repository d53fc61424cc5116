/** How agents get a gateway key, how long it counts, and what ends it. */

import { createPrivateKey, sign } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { deleteAgent, rotateAgent, showAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import { auditEvents } from '#topics/catalog.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
beforeAll(async () => {
  gateway = await openGatewayPlatform({ TRUSTED_PROXIES: '127.0.0.0/8', GATEWAY_KEY_TTL_S: '7200' })
})
afterAll(() => gateway.close())

const nonce = '0123456789abcdefABCDEF'
let hosts = 1
/** Each test comes from an address of its own, so that the limits of one do not meet another. */
function from(address = `198.51.100.${hosts++}`) {
  const headers = { 'x-forwarded-for': address }
  return {
    headers,
    handshake: (agent_id: string, given: object = {}) =>
      call(gateway.vectorUrl, '/v1/auth/handshake', { body: { agent_id, nonce, ...given }, headers }),
    verify: (agent_id: string, signature: unknown) =>
      call(gateway.vectorUrl, '/v1/auth/verify', { body: { agent_id, signature }, headers }),
  }
}

function signed(privateKeyPem: string, text: string): string {
  return sign(null, Buffer.from(text, 'utf8'), createPrivateKey(privateKeyPem)).toString('hex')
}

async function proven(agentId: string, privateKeyPem: string) {
  const host = from()
  const challenge = await host.handshake(agentId)
  const signature = signed(privateKeyPem, nonce + challenge.json.server_nonce)
  return { host, signature, issued: await host.verify(agentId, signature) }
}

const counts = (key: string) => call(gateway.vectorUrl, '/v1/vectors/count?collection=posts', { key })

test('a handshake answers challenge and fingerprint, and the signature over both nonces gives a key', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'whale' })
  const host = from()
  const challenge = await host.handshake('whale')
  expect(challenge.status).toBe(200)
  expect(challenge.json).toEqual({
    client_nonce: nonce,
    server_nonce: expect.stringMatching(/^[0-9a-f]{64}$/),
    public_key_fingerprint: (await showAgent(gateway.platform.engines.relational, 'whale'))
      .public_key_fingerprint,
    expires_in: 60,
  })
  const issued = await host.verify(
    'whale',
    signed(privateKeyPem, nonce + challenge.json.server_nonce).toUpperCase(),
  )
  expect([issued.status, issued.json.expires_in]).toEqual([200, 7_200])
  expect(issued.json.api_key).toMatch(/^vk_live_[A-Za-z0-9_-]{43}$/)
  expect((await counts(issued.json.api_key as string)).status).toBe(200)
  const lower = await call(gateway.vectorUrl, '/v1/vectors/count?collection=posts', {
    headers: { authorization: `bearer ${issued.json.api_key}` },
  })
  expect(lower.status).toBe(200)
})

test('the key is kept as a hash only and never logged', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'secretive' })
  const { issued, signature } = await proven('secretive', privateKeyPem)
  const key = issued.json.api_key as string
  await counts(key)
  const { rows } = await gateway.platform.engines.relational.query('select * from platform.gateway_keys')
  expect(JSON.stringify(rows)).not.toContain(key.slice(8))
  expect(gateway.lines.join('')).not.toContain(key.slice(8))
  expect(gateway.lines.join('')).not.toContain(signature)
})

test('a signature is used once', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'replayed' })
  const { host, signature, issued } = await proven('replayed', privateKeyPem)
  expect(issued.status).toBe(200)
  const again = await host.verify('replayed', signature)
  expect([again.status, again.json.code]).toEqual([401, 'invalid_signature'])
  expect(again.headers.get('www-authenticate')).toBe('Bearer')
})

test('two verifications at once with one signature get one key', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'racer' })
  const host = from()
  const challenge = await host.handshake('racer')
  const signature = signed(privateKeyPem, nonce + challenge.json.server_nonce)
  const answers = await Promise.all([1, 2, 3].map(() => host.verify('racer', signature)))
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, 401, 401])
})

test('every fault of a signature gets the same answer', async () => {
  const own = await gateway.provision({ agentId: 'own' })
  const foreign = await gateway.provision({ agentId: 'foreign' })
  const host = from()
  const text = nonce + (await host.handshake('own')).json.server_nonce
  const wrong: [string, string][] = [
    ['own', signed(foreign.privateKeyPem, text)],
    ['own', signed(own.privateKeyPem, `${text}x`)],
    ['own', signed(own.privateKeyPem, text.slice(nonce.length))],
    ['own', 'zz'],
    ['own', ''],
    ['own', 'ab'.repeat(5_000)],
    ['foreign', signed(own.privateKeyPem, text)],
    ['nobody', signed(own.privateKeyPem, text)],
    ["x' OR 1=1", signed(own.privateKeyPem, text)],
  ]
  const answers = await Promise.all(wrong.map(([agent, signature]) => host.verify(agent, signature)))
  for (const answer of answers) {
    expect([answer.status, answer.json.code, answer.json.detail]).toEqual([
      401,
      'invalid_signature',
      answers[0]!.json.detail,
    ])
  }
  expect((await host.verify('own', signed(own.privateKeyPem, text))).status).toBe(200)
})

test('an unknown agent is 401 unknown_agent, also in another case', async () => {
  await gateway.provision({ agentId: 'Cased' })
  for (const agent of ['nobody', 'cased', '__proto__', "x' OR 1=1"]) {
    const refused = await from().handshake(agent)
    expect([agent, refused.status, refused.json.code]).toEqual([agent, 401, 'unknown_agent'])
  }
})

test.each([
  ['a nonce that is too short', { nonce: 'a'.repeat(15) }, '/nonce'],
  ['a nonce that is too long', { nonce: 'a'.repeat(257) }, '/nonce'],
  ['a nonce that is not hex', { nonce: 'g'.repeat(16) }, '/nonce'],
  ['a nonce that is no string', { nonce: 7 }, '/nonce'],
  ['a field that is not known', { more: 1 }, '/more'],
  ['an agent id of 10,000 characters', { agent_id: 'x'.repeat(10_000) }, '/agent_id'],
])('%s is 422 with its path', async (_what, given, path) => {
  const refused = await from().handshake('whale', given)
  expect([refused.status, (refused.json.errors as { path: string }[])[0]?.path]).toEqual([422, path])
})

const pendingOf = async (uid: string) => {
  const { rows } = await gateway.platform.engines.relational.query<{ address: string }>(
    'select address from platform.challenges where agent_uid = $1 order by id',
    [uid],
  )
  return rows.map(({ address }) => address)
}

test('eight challenges wait for an address; the ninth pushes out the oldest there and no other', async () => {
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'eager' })
  const elsewhere = from()
  const other = await elsewhere.handshake('eager')
  const host = from()
  const challenges: Awaited<ReturnType<typeof host.handshake>>[] = []
  for (let n = 0; n < 9; n++) challenges.push(await host.handshake('eager'))
  expect(challenges.map((one) => one.status)).toEqual(new Array(9).fill(200))
  expect(await pendingOf(uid)).toHaveLength(9)
  const answer = (challenge: (typeof challenges)[number] | undefined) =>
    signed(privateKeyPem, nonce + challenge?.json.server_nonce)
  expect((await host.verify('eager', answer(challenges[0]))).json.code).toBe('invalid_signature')
  expect((await host.verify('eager', answer(challenges[1]))).status).toBe(200)
  expect((await elsewhere.verify('eager', answer(other))).status).toBe(200)
})

test('handshakes at the same moment leave eight challenges', async () => {
  const { uid } = await gateway.provision({ agentId: 'burst' })
  const host = from()
  const answers = await Promise.all(Array.from({ length: 16 }, () => host.handshake('burst')))
  expect(answers.map((answer) => answer.status)).toEqual(new Array(16).fill(200))
  expect(await pendingOf(uid)).toHaveLength(8)
})

test('a flood from many addresses of a /64 pushes out its own challenges, and never those of others', async () => {
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'crowded' })
  const host = from()
  const own = await host.handshake('crowded')
  await gateway.platform.engines.relational.query(
    `insert into platform.challenges (agent_uid, address, client_nonce, server_nonce, expires_at)
     select $1, case when n <= 250 then 'a' || n % 50 else 'b' || n end, 'x', 'y', now() + interval '30 seconds'
     from generate_series(1, 255) n`,
    [uid],
  )
  for (let n = 0; n < 12; n++) {
    expect((await from(`2001:db8:5:5::${n + 1}`).handshake('crowded')).status).toBe(200)
  }
  const pending = await pendingOf(uid)
  expect(pending).toHaveLength(256)
  // The others hold five each: from its seventh on the flood holds the most.
  expect(pending.filter((address) => address === '2001:db8:5:5::/64')).toHaveLength(6)
  expect(pending.filter((address) => address.startsWith('b'))).toHaveLength(5)
  const signature = signed(privateKeyPem, nonce + own.json.server_nonce)
  expect((await host.verify('crowded', signature)).status).toBe(200)
})

test('a signature is compared with 16 challenges at most, those of its own network first', async () => {
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'besieged' })
  const host = from()
  const own = await host.handshake('besieged')
  const elsewhere = Array.from({ length: 30 }, (_, n) => from(`203.0.113.${n}`))
  for (const other of elsewhere) await other.handshake('besieged')
  const { rows } = await gateway.platform.engines.relational.query<{ server_nonce: string }>(
    'select server_nonce from platform.challenges where agent_uid = $1 order by id',
    [uid],
  )
  const answer = (index: number) =>
    host.verify('besieged', signed(privateKeyPem, nonce + rows[index]!.server_nonce))
  expect(rows[0]!.server_nonce).toBe(own.json.server_nonce)
  // One of its own, and the newest fifteen of the others.
  expect((await answer(15)).json.code).toBe('invalid_signature')
  expect((await answer(16)).status).toBe(200)
  expect((await answer(0)).status).toBe(200)
})

test('wrong signatures count for the agent: networks that sent them wait, the agent itself does not', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'guessed' })
  const guessers = Array.from({ length: 101 }, (_, n) => from(`192.0.2.${n}`))
  const wrong = '00'.repeat(64)
  for (const guesser of guessers) {
    expect((await guesser.verify('guessed', wrong)).json.code).toBe('invalid_signature')
  }
  const refused = await guessers[0]!.verify('guessed', wrong)
  expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited'])
  expect(refused.json.retryAfter).toBeGreaterThan(0)
  expect((await proven('guessed', privateKeyPem)).issued.status).toBe(200)
})

test('requests that are faulty count before they are checked: the 21st of a second is 429', async () => {
  await gateway.provision({ agentId: 'sloppy' })
  const host = from()
  const sending = Array.from({ length: 60 }, () => host.handshake('sloppy', { nonce: 'short' }))
  const statuses = (await Promise.all(sending)).map(({ status }) => status)
  expect(statuses).toContain(429)
  expect(statuses.filter((status) => status === 422).length).toBeGreaterThanOrEqual(20)
})

test('a handshake that is refused has no audit record of its own', async () => {
  await gateway.provision({ agentId: 'pushy' })
  const host = from()
  const answers = await Promise.all(Array.from({ length: 40 }, () => host.handshake('pushy')))
  const passed = answers.filter(({ status }) => status === 200).length
  expect(passed).toBeLessThan(40)
  const records = await recordsOf(gateway.platform, auditEvents)
  const begun = records.filter(({ value }) => value?.agent_id === 'pushy' && value.phase === 'begun')
  expect(begun).toHaveLength(passed)
})

test('a challenge that ran out is worth nothing', async () => {
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'late' })
  const host = from()
  const challenge = await host.handshake('late')
  await gateway.platform.engines.relational.query(
    'update platform.challenges set expires_at = now() where agent_uid = $1',
    [uid],
  )
  const refused = await host.verify('late', signed(privateKeyPem, nonce + challenge.json.server_nonce))
  expect(refused.json.code).toBe('invalid_signature')
})

test('handshake and verify together are limited to 20 in any second, with Retry-After', async () => {
  await gateway.provision({ agentId: 'fast' })
  const host = from()
  const answers = await Promise.all(Array.from({ length: 40 }, () => host.verify('fast', 'ab'.repeat(64))))
  const refused = answers.filter((answer) => answer.status === 429)
  expect(refused.length).toBeGreaterThanOrEqual(1)
  expect(answers.filter((answer) => answer.status === 401).length).toBeGreaterThanOrEqual(20)
  expect(refused[0]!.json.retryAfter).toBeLessThanOrEqual(1)
  expect(refused[0]!.headers.get('retry-after')).toBe('1')
})

test.each([
  ['no header', undefined],
  ['another scheme', 'Basic dml0ZTp4'],
  ['no key', 'Bearer '],
  ['a key of another shape', 'Bearer vk_live_short'],
  ['a key that was never given', `Bearer vk_live_${'A'.repeat(43)}`],
  ['a key of 20,000 characters', `Bearer vk_live_${'A'.repeat(20_000)}`],
])('%s is 401 unauthorized before the body is read', async (_what, authorization) => {
  const refused = await call(gateway.vectorUrl, '/v1/vectors/upsert', {
    body: 'not json',
    headers: authorization === undefined ? {} : { authorization },
  })
  expect([refused.status, refused.json.code]).toEqual([401, 'unauthorized'])
  expect(refused.headers.get('www-authenticate')).toBe('Bearer')
})

test('a key that ran out is refused', async () => {
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'expiring' })
  const { issued } = await proven('expiring', privateKeyPem)
  await gateway.platform.engines.relational.query(
    'update platform.gateway_keys set expires_at = now() where agent_uid = $1',
    [uid],
  )
  expect((await counts(issued.json.api_key as string)).status).toBe(401)
})

test.each(['deleted', 'rotated'])(
  'when an agent was %s its cached keys are refused once that is published',
  async (change) => {
    const { relational } = gateway.platform.engines
    const { privateKeyPem } = await gateway.provision({ agentId: change })
    const { issued } = await proven(change, privateKeyPem)
    const key = issued.json.api_key as string
    expect((await counts(key)).status).toBe(200)
    const { outboxId } = await (change === 'deleted' ? deleteAgent : rotateAgent)(relational, change)
    await waitUntilPublished(relational, outboxId)
    expect((await counts(key)).status).toBe(401)
    const handshake = await from().handshake(change)
    expect(handshake.json.code ?? 'given').toBe(change === 'deleted' ? 'unknown_agent' : 'given')
    if (change === 'rotated') {
      expect((await proven(change, privateKeyPem)).issued.json.code).toBe('invalid_signature')
    }
  },
)

test('a client renews a key that is refused, once', async () => {
  const { relational } = gateway.platform.engines
  const { uid, privateKeyPem } = await gateway.provision({ agentId: 'renewing' })
  const client = createClient({ vectorUrl: gateway.vectorUrl, agentId: 'renewing', privateKeyPem })
  await client.upsert('posts', [{ id: 'r', vector: axisVector(1) }], { wait: true })
  const first = await client.apiKey()
  // Deleting the row alone publishes no change: a second key takes the place of the first by a changed agent.
  await relational.query('delete from platform.gateway_keys where agent_uid = $1', [uid])
  const { outboxId } = await relational.transaction(async (tx) => {
    const { writeAgentChange } = await import('#services/access/agents/changes.ts')
    return { outboxId: await writeAgentChange(tx, await showAgent(tx, 'renewing'), 'tier') }
  })
  await waitUntilPublished(relational, outboxId)
  expect(await client.count('posts')).toBeGreaterThanOrEqual(1)
  expect(await client.apiKey()).not.toBe(first)
})
