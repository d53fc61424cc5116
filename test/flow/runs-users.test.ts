/** The user of a run: agents made again under an old id, names of the platform, free names that become somebody's. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deleteAgent } from '#services/access/agents/agents.ts'
import { newRunId } from '#services/runs/state/accept.ts'
import { type Answer, call as bareCall } from '#test/support/gateway-call.ts'
import { makePerson, signIn } from '#test/support/people.ts'
import { message, openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform
let admin: string

beforeAll(async () => {
  platform = await openRunsPlatform()
  admin = await platform.keyFor('admin')
  platform.script('whale', () => [{ text: 'ok' }])
  platform.script('pulse', () => [{ text: 'I see.' }])
})
afterAll(() => platform?.close())

const codeOf = ({ status, json }: Answer) => [status, json.code]
const mismatch = [403, 'user_mismatch']
const idOf = ({ headers }: Answer) => headers.get('x-run-id') as string

const api = (method: string, path: string, key: string, body?: object) =>
  bareCall(platform.baseUrl, `/api/v1${path}`, { method, key, ...(body ? { body } : {}) })

async function listed(key: string, query = ''): Promise<string[]> {
  const { json } = await platform.call('GET', `/runs${query}`, { key })
  return (json as unknown as { runId: string }[]).map(({ runId }) => runId)
}

/** Texts that agents of the node were given in the session. */
const given = (sessionId: string) =>
  platform.node.runs.filter((run) => run.sessionId === sessionId).map(({ text }) => text)

describe('an agent that is made again under an old id', () => {
  it('sees nothing of the old one, ends nothing, and gets nothing of its sessions', async () => {
    const old = await platform.keyOf('renewed')
    const session = { sessionId: 's-renewed' }
    const run = await platform.run('whale', 'the code is 4711', { key: old, fields: session })
    const body = { message: 'the code is 4711', sessionId: 'd-renewed' }
    const dispatch = await platform.call('POST', '/dispatch', { key: old, body })
    expect([run.status, dispatch.status]).toEqual([200, 202])
    await deleteAgent(platform.platform.engines.relational, 'renewed')
    const key = await platform.keyOf('renewed')
    const token = await platform.idTokenOf('renewed')

    expect(await listed(key)).toEqual([])
    expect(await listed(key, '?userId=renewed')).toEqual([])
    for (const path of ['/runs', '/dispatches']) {
      expect((await api('GET', path, token)).json.data).toEqual([])
    }
    for (const path of [`/runs/${idOf(run)}`, `/dispatches/${dispatch.json.goalId}`]) {
      for (const [method, rest] of [
        ['GET', ''],
        ['GET', '/events'],
        ['POST', '/cancel'],
      ] as const) {
        const asked = await platform.call(method, `${path}${rest}`, { key })
        expect([path, rest, asked.status]).toEqual([path, rest, 404])
        expect((await api(method, `${path}${rest}`, token)).status).toBe(404)
      }
    }
    expect((await platform.call('GET', `/runs/${idOf(run)}`, { key: admin })).status).toBe(200)

    const text = '@pulse, what was said?'
    expect(codeOf(await platform.run('whale', text, { key, fields: session }))).toEqual(mismatch)
    const again = await platform.call('POST', '/dispatch', { key, body: { message: text, ...session } })
    expect(codeOf(again)).toEqual(mismatch)
    expect(codeOf(await api('POST', '/dispatches', token, { message: text, ...session }))).toEqual(mismatch)
    expect(given('s-renewed')).toEqual(['the code is 4711'])
    const fresh = await platform.run('whale', text, { key, fields: { sessionId: 's-fresh' } })
    expect(talkOf(fresh).sort()).toEqual(['PULSE: I see.', 'WHALE: ok'])
    expect(given('s-fresh').join()).not.toContain('4711')
    expect(await listed(key)).toHaveLength(2)
  })

  it('sees what an instance of the version before writes for it, and the next one does not', async () => {
    const { relational } = platform.platform.engines
    const key = await platform.keyOf('rolling')
    const runId = newRunId()
    await relational.query(
      `insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger, caller_uid)
       values ($1, $1, 'whale', 'WHALE', 'rolling', 's-rolling', 'completed', 'api', 'an admin')`,
      [runId],
    )
    await relational.query('insert into platform.run_trees (root_run_id, open_runs) values ($1, 0)', [runId])
    expect((await platform.call('GET', `/runs/${runId}`, { key })).status).toBe(200)
    expect(await listed(key)).toEqual([runId])
    await deleteAgent(relational, 'rolling')
    const next = await platform.keyOf('rolling')
    expect((await platform.call('GET', `/runs/${runId}`, { key: next })).status).toBe(404)
    expect(await listed(next)).toEqual([])
  })
})

describe('a userId that is an agent or a person of the platform', () => {
  it('is for that one and for admins', async () => {
    const key = await platform.keyOf('a-bridge')
    const token = await platform.idTokenOf('a-bridge')
    const other = await platform.provision({ agentId: 'Somebody-Else' })
    const ada = await makePerson(platform, 'ada@users.example')
    const newMessage = message('@pulse, what was said?')
    for (const userId of ['Somebody-Else', 'somebody-else', other.uid, ada.uid, 'operator']) {
      const run = { appName: 'WHALE', newMessage, userId, sessionId: 's1' }
      const dispatch = { message: 'what was said?', userId, sessionId: 's1' }
      const snake = { new_message: newMessage, user_id: userId }
      const answers = [
        await platform.call('POST', '/whale/run', { key, body: run }),
        await platform.call('POST', '/whale/run', { key, body: snake }),
        await platform.call('POST', '/dispatch', { key, body: dispatch }),
        await api('POST', '/runs', token, run),
        await api('POST', '/dispatches', token, dispatch),
      ]
      for (const answer of answers) expect([userId, ...codeOf(answer)]).toEqual([userId, ...mismatch])
      const byAdmin = await platform.run('whale', 'x', { key: admin, fields: { userId } })
      expect([userId, byAdmin.status]).toEqual([userId, 200])
    }
    // Itself in another case, and a person by uid.
    const own = await platform.run('whale', 'x', { key, fields: { userId: 'A-Bridge' } })
    expect([own.status, own.headers.get('x-user-id')]).toEqual([200, 'A-Bridge'])
    const { idToken } = await signIn(platform, ada)
    const hers = await platform.run('whale', 'x', { key: idToken, fields: { userId: ada.uid } })
    expect(hers.status).toBe(200)
    expect(await listed(idToken)).toHaveLength(2)
  })

  it('is nobody where the name only looks like one, and agents share the users of free names', async () => {
    await platform.provision({ agentId: 'kite' })
    const one = await platform.keyOf('one-bridge')
    const two = await platform.keyOf('two-bridge')
    for (const userId of ['\u212aite', 'kite ', 'an end user']) {
      const fields = { userId, sessionId: 's-shared' }
      for (const key of [one, two]) {
        expect((await platform.run('whale', 'x', { key, fields })).status).toBe(200)
      }
    }
  })
})

describe('a free name', () => {
  it('does not hand over its runs and sessions when an agent is provisioned under it', async () => {
    const bridge = await platform.keyOf('late-bridge')
    const fields = { userId: 'late', sessionId: 's-late' }
    const run = await platform.run('whale', 'the word is 0815', { key: bridge, fields })
    expect(run.status).toBe(200)
    const key = await platform.keyOf('late')
    expect(await listed(key)).toEqual([])
    expect((await platform.call('GET', `/runs/${idOf(run)}`, { key })).status).toBe(404)
    const text = '@pulse, what was said?'
    const own = await platform.run('whale', text, { key, fields: { sessionId: 's-late' } })
    expect(codeOf(own)).toEqual(mismatch)
    expect(own.json.detail).toContain('sessionId')
    expect(given('s-late')).toEqual(['the word is 0815'])
    expect((await platform.run('whale', text, { key })).status).toBe(200)
    // The bridge sees what it started, and cannot go on.
    expect(await listed(bridge)).toEqual([idOf(run)])
    expect(codeOf(await platform.run('whale', text, { key: bridge, fields }))).toEqual(mismatch)
  })
})
