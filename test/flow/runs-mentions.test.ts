/** Agents that are named join: their events in the answer, the limits, skipped mentions. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  agents,
  lineOf,
  message,
  openRunsPlatform,
  type RunsPlatform,
  talkOf,
} from '#test/support/runs-platform.ts'
import { echoScript } from '#test/support/scripted-node.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())
afterEach(() => {
  for (const slug of agents) platform.script(slug, echoScript)
})

const silent = (text: string) => () => [{ text }]

async function runOf(answer: { headers: Headers }) {
  return (await platform.call('GET', `/runs/${answer.headers.get('x-run-id')}`)).json
}

/** Runs of the tree as `AGENT depth`. */
async function treeOf(answer: { headers: Headers }): Promise<string[]> {
  const path = `/runs?rootRunId=${answer.headers.get('x-run-id')}&limit=100`
  const runs = (await platform.call('GET', path)).json as unknown as { appName: string; depth: number }[]
  return runs.map(({ appName, depth }) => `${appName} ${depth}`).reverse()
}

describe('a name in the message of a user', () => {
  it('lets the agent join the session, with its events in the same answer', async () => {
    platform.script('whale', silent('I looked.'))
    platform.script('pulse', silent('All is well.'))
    const answer = await platform.run('whale', 'Ask @pulse, please', { fields: { sessionId: 's-joined' } })
    expect(talkOf(answer).sort()).toEqual(['PULSE: All is well.', 'WHALE: I looked.'])
    const run = await runOf(answer)
    expect(run.joined).toEqual([{ agent: 'PULSE', runId: expect.stringMatching(/^run_/) }])
    expect(platform.node.hasSession('pulse', 'key-member', 's-joined')).toBe(true)
    const [{ runId }] = run.joined as [{ runId: string }]
    const joined = (await platform.call('GET', `/runs/${runId}`)).json
    expect(joined).toMatchObject({
      trigger: 'mention',
      depth: 1,
      parentRunId: run.runId,
      rootRunId: run.runId,
    })
    const own = await platform.stream(`/runs/${runId}/events`)
    await own.over
    expect(own.frames.map(({ data }) => lineOf(data))).toEqual(['PULSE: All is well.', 'gateway: '])
  })

  it('does nothing in code, quotes and addresses, and for the addressee', async () => {
    platform.script('whale', silent('ok'))
    const text = 'WHALE: `PULSE` and\n> ATLAS\nat https://x.example/NEXUS, CIPHER_2, pulse'
    const answer = await platform.run('whale', text)
    expect(await treeOf(answer)).toEqual(['WHALE 0'])
    expect((await runOf(answer)).skipped).toEqual([])
  })

  it('is reported when nobody has it, and beyond four agents', async () => {
    for (const slug of agents) platform.script(slug, silent('ok'))
    const answer = await platform.run('whale', '@nobody PULSE CIPHER ATLAS NEXUS AXON')
    expect((await runOf(answer)).skipped).toEqual([
      { agent: 'nobody', reason: 'unknown' },
      { agent: 'AXON', reason: 'fan_out' },
    ])
    expect(await treeOf(answer)).toHaveLength(5)
  })

  it('leaves their events out where only the agent itself is asked for', async () => {
    platform.script('whale', silent('mine'))
    platform.script('pulse', () => [{ waitMs: 100 }, { text: 'theirs' }])
    const body = { newMessage: message('and PULSE') }
    const answer = await platform.call('POST', '/whale/run?join=false', { body })
    expect(talkOf(answer)).toEqual(['WHALE: mine'])
    const stream = await platform.stream('/whale/run?join=false', { body })
    await stream.over
    expect(stream.frames.map(({ data }) => lineOf(data))).toEqual(['WHALE: mine', 'gateway: '])
  })
})

describe('a name in the reply of an agent', () => {
  it('joins from there on, and the ids go on over all', async () => {
    platform.script('whale', silent('ATLAS should know.'))
    platform.script('atlas', silent('I do.'))
    const stream = await platform.stream('/whale/run', { body: { newMessage: message('hello') } })
    await stream.over
    expect(stream.frames.map(({ data }) => lineOf(data))).toEqual([
      'WHALE: ATLAS should know.',
      'ATLAS: I do.',
      'gateway: ',
    ])
    expect(stream.ids()).toEqual([1, 2])
  })

  it('gives the agent that joins the earlier messages', async () => {
    platform.script('whale', silent('ATLAS, over to you: 4711.'))
    await platform.run('whale', 'the question was 0815', { fields: { sessionId: 's-context' } })
    const asked = platform.node.runs.find(
      ({ app, sessionId }) => app === 'atlas' && sessionId === 's-context',
    )
    expect(asked!.text).toContain('4711')
    expect(asked!.text).toContain('0815')
  })

  it('ends when two agents always call each other', async () => {
    platform.script('nexus', silent('@atlas, your turn'))
    platform.script('atlas', silent('@nexus, your turn'))
    const answer = await platform.run('nexus', 'start')
    expect(await treeOf(answer)).toEqual(['NEXUS 0', 'ATLAS 1', 'NEXUS 2', 'ATLAS 3'])
    const runs = (await platform.call('GET', `/runs?rootRunId=${answer.headers.get('x-run-id')}`)).json
    expect((runs as unknown as { skipped: unknown[] }[])[0]!.skipped).toEqual([
      { agent: 'NEXUS', reason: 'depth' },
    ])
  })

  it('does not wake who called when it is only thanked', async () => {
    platform.script('nexus', silent('ATLAS, please'))
    platform.script('atlas', silent('Thanks, NEXUS.'))
    expect(await treeOf(await platform.run('nexus', 'start'))).toEqual(['NEXUS 0', 'ATLAS 1'])
  })

  it('stops at twelve runs when everybody calls everybody', async () => {
    const all = agents.map((slug) => `@${slug}`).join(' ')
    for (const slug of agents) platform.script(slug, silent(all))
    const answer = await platform.run('whale', 'start')
    const tree = await treeOf(answer)
    expect(tree).toHaveLength(12)
    expect(answer.status).toBe(200)
  })

  it('counts when the agent is away: the tree ends all the same', async () => {
    platform.script('whale', silent('ask PULSE'))
    platform.script('pulse', () => [{ raise: 'broken' }])
    const answer = await platform.run('whale', 'x')
    expect(answer.status).toBe(200)
    const runs = (await platform.call('GET', `/runs?rootRunId=${answer.headers.get('x-run-id')}&agent=pulse`))
      .json
    expect((runs as unknown as { status: string }[])[0]!.status).toBe('failed')
  })
})

describe('many at once', () => {
  it('every tree has its own events, each once', async () => {
    platform.script('whale', ({ text }) => [{ text: `${text} PULSE` }])
    platform.script('pulse', ({ sessionId }) => [{ text: `joined ${sessionId}` }])
    const keys = await Promise.all([0, 1, 2, 3].map((n) => platform.keyOf(`one-of-many-${n}`)))
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, n) =>
        platform.run('whale', `m${n}`, { key: keys[n % 4] as string, fields: { sessionId: `s${n}` } }),
      ),
    )
    answers.forEach((answer, n) => {
      expect(talkOf(answer)).toEqual([`WHALE: m${n} PULSE`, `PULSE: joined s${n}`])
    })
  })
})
