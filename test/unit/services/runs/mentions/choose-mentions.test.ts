import { describe, expect, it } from 'vitest'
import { chooseMentions, type MentionsAsked, pairKey } from '#services/runs/mentions/choose-mentions.ts'
import type { NodeSet, RunNode } from '#services/runs/nodes/types.ts'
import { spokenText } from '#services/runs/state/types.ts'

const names = ['WHALE', 'PULSE', 'CIPHER', 'ATLAS', 'NEXUS', 'AXON', 'EXTRA']
const nodes = nodeSet(names)

function nodeSet(codenames: string[]): NodeSet {
  const list = codenames.map((codename): RunNode => {
    const slug = codename.toLowerCase()
    const rest = { role: '', url: 'http://127.0.0.1:1', headers: {}, timeoutMs: 1, concurrency: 1 }
    return { slug, codename, app: slug, ...rest }
  })
  return {
    nodes: list,
    secrets: [],
    bySlug: (slug) => list.find((node) => node.slug === slug),
    byCodename: (name) => list.find(({ codename }) => codename === name.toUpperCase()),
  }
}

/** Agents that join, and skipped ones as `NAME reason`. */
function choose(text: string, asked: Partial<MentionsAsked> = {}): { join: string[]; skipped: string[] } {
  const { join, skipped } = chooseMentions({
    text,
    speaker: 'WHALE',
    isUser: false,
    depth: 0,
    nodes,
    tally: { runs: 1, pairs: {} },
    ...asked,
  })
  return {
    join: join.map(({ codename }) => codename),
    skipped: skipped.map(({ agent, reason }) => `${agent} ${reason}`),
  }
}

describe('chooseMentions', () => {
  it('lets each named agent join once', () => {
    expect(choose('PULSE and @pulse and ATLAS, PULSE')).toEqual({ join: ['PULSE', 'ATLAS'], skipped: [] })
  })

  it('ignores the speaker itself and the agent that a user wrote to', () => {
    expect(choose('I am WHALE, @whale')).toEqual({ join: [], skipped: [] })
    expect(choose('@WHALE ask PULSE', { isUser: true, speaker: '', addressee: 'WHALE' })).toEqual({
      join: ['PULSE'],
      skipped: [],
    })
  })

  it('calls the caller back only with @', () => {
    expect(choose('Thanks PULSE', { caller: 'PULSE', depth: 1 })).toEqual({ join: [], skipped: [] })
    expect(choose('Thanks PULSE. @PULSE, one more', { caller: 'PULSE', depth: 1 }).join).toEqual(['PULSE'])
  })

  it('takes a bare name for talk once the run has called it', () => {
    const alreadyNamed = new Set(['PULSE'])
    expect(choose('PULSE will answer', { alreadyNamed }).join).toEqual([])
    expect(choose('@PULSE?', { alreadyNamed }).join).toEqual(['PULSE'])
  })

  it('reports an unknown name only with @, and no more than eight', () => {
    expect(choose('NOBODY @somebody')).toEqual({ join: [], skipped: ['somebody unknown'] })
    const many = Array.from({ length: 20 }, (_, n) => `@name${n}`).join(' ')
    expect(choose(`${many} @pulse`)).toMatchObject({ join: ['PULSE'], skipped: { length: 8 } })
  })

  it('stops at depth 3', () => {
    expect(choose('PULSE', { depth: 2 }).join).toEqual(['PULSE'])
    expect(choose('PULSE', { depth: 3 })).toEqual({ join: [], skipped: ['PULSE depth'] })
  })

  it('lets four join through one message', () => {
    const { join, skipped } = choose('PULSE CIPHER ATLAS NEXUS AXON EXTRA')
    expect(join).toEqual(['PULSE', 'CIPHER', 'ATLAS', 'NEXUS'])
    expect(skipped).toEqual(['AXON fan_out', 'EXTRA fan_out'])
  })

  it('lets an agent call another twice, and never damps a user', () => {
    const pairs = Object.fromEntries([
      [pairKey('WHALE', 'PULSE'), 2],
      [pairKey('PULSE', 'ATLAS'), 2],
    ])
    expect(choose('PULSE ATLAS', { tally: { runs: 5, pairs } })).toEqual({
      join: ['ATLAS'],
      skipped: ['PULSE pair'],
    })
    expect(choose('PULSE', { isUser: true, tally: { runs: 5, pairs } }).join).toEqual(['PULSE'])
  })

  it('stops at twelve runs of one root message', () => {
    const tally = { runs: 11, pairs: {} }
    expect(choose('PULSE ATLAS', { tally })).toEqual({ join: ['PULSE'], skipped: ['ATLAS budget'] })
  })

  it('ends two agents that always name each other', () => {
    const pairs: Record<string, number> = {}
    let [speaker, other, depth, runs] = ['NEXUS', 'ATLAS', 0, 1]
    for (; choose(`@${other}`, { speaker, depth, tally: { runs, pairs } }).join.length > 0; depth++) {
      const key = pairKey(speaker, other)
      pairs[key] = (pairs[key] ?? 0) + 1
      ;[speaker, other] = [other, speaker]
      runs += 1
    }
    expect(runs).toBe(4)
  })
})

it('reads text alone: no thoughts, calls or results of tools', () => {
  const parts = [
    { text: 'Ask PULSE' },
    { text: 'maybe ATLAS', thought: true },
    { functionCall: { name: 'NEXUS' } },
    { text: 'now' },
  ]
  expect(spokenText({ role: 'model', parts })).toBe('Ask PULSE\n\nnow')
})
