import { describe, expect, it } from 'vitest'
import { chooseMentions, pairKey } from '#services/runs/dispatch/mentions.ts'
import { spokenText } from '#services/runs/state/types.ts'
import { nodesAt } from '#test/support/run-nodes.ts'

const names = ['WHALE', 'PULSE', 'CIPHER', 'ATLAS', 'NEXUS', 'AXON', 'EXTRA']
const nodes = nodesAt(
  'http://127.0.0.1:1',
  names.map((name) => name.toLowerCase()),
)

interface Asked {
  agent: string
  isUser: boolean
  messageAuthor: string
  depth: number
  named: string[]
  tally: { runs: number; pairs: Record<string, number> }
}

/** Agents that join, and skipped ones as `NAME reason`. */
function choose(text: string, asked: Partial<Asked> = {}): { join: string[]; skipped: string[] } {
  const { agent = 'WHALE', isUser = false, messageAuthor = null, depth = 0, named = [] } = asked
  const joined = named.map((one) => ({ agent: one, runId: '' }))
  const run = { agent, messageAuthor, depth, joined }
  const { join, skipped } = chooseMentions(
    run,
    { text, isUser },
    nodes,
    asked.tally ?? { runs: 1, pairs: {} },
  )
  return {
    join: join.map(({ codename }) => codename),
    skipped: skipped.map(({ agent, reason, count }) => [agent, reason, count ?? []].flat().join(' ')),
  }
}

describe('chooseMentions', () => {
  it('lets each named agent join once', () => {
    expect(choose('PULSE and @pulse and ATLAS, PULSE')).toEqual({ join: ['PULSE', 'ATLAS'], skipped: [] })
  })

  it('ignores the speaker itself and the agent that a user wrote to', () => {
    expect(choose('I am WHALE, @whale')).toEqual({ join: [], skipped: [] })
    expect(choose('@WHALE ask PULSE', { isUser: true })).toEqual({
      join: ['PULSE'],
      skipped: [],
    })
  })

  it('calls the caller back only with @', () => {
    expect(choose('Thanks PULSE', { messageAuthor: 'PULSE', depth: 1 })).toEqual({ join: [], skipped: [] })
    expect(choose('Thanks PULSE. @PULSE, one more', { messageAuthor: 'PULSE', depth: 1 }).join).toEqual([
      'PULSE',
    ])
  })

  it('takes a bare name for talk once the run has called it', () => {
    const named = ['PULSE']
    expect(choose('PULSE will answer', { named }).join).toEqual([])
    expect(choose('@PULSE?', { named }).join).toEqual(['PULSE'])
  })

  it('reports an unknown name only with @, eight by name and the others by their count', () => {
    expect(choose('NOBODY @somebody')).toEqual({ join: [], skipped: ['somebody unknown'] })
    const many = Array.from({ length: 20 }, (_, n) => `@name${n}`).join(' ')
    const chosen = choose(`${many} @name3 @pulse`)
    expect(chosen.join).toEqual(['PULSE'])
    expect(chosen.skipped.slice(0, 8)).toEqual(Array.from({ length: 8 }, (_, n) => `name${n} unknown`))
    expect(chosen.skipped.slice(8)).toEqual(['12 more unknown 12'])
    expect(choose('@a1 @a2 @a3 @a4 @a5 @a6 @a7 @a8').skipped.at(-1)).toBe('a8 unknown')
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
    let [agent, other, depth, runs] = ['NEXUS', 'ATLAS', 0, 1]
    for (; choose(`@${other}`, { agent, depth, tally: { runs, pairs } }).join.length > 0; depth++) {
      const key = pairKey(agent, other)
      pairs[key] = (pairs[key] ?? 0) + 1
      ;[agent, other] = [other, agent]
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
