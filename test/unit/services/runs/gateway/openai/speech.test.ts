/** What several agents say at once, as one text: each word once, and no message in the middle of another. */

import { expect, test } from 'vitest'
import { createSpeech, createUsage } from '#services/runs/gateway/openai/speech.ts'
import type { RunEvent } from '#services/runs/state/types.ts'

const event = (author: string, text: string, more: object = {}): RunEvent => ({
  id: 'e',
  author,
  invocationId: `run_${author}`,
  timestamp: 1,
  content: { parts: [{ text: 'thinking', thought: true }, { text }, { functionCall: { name: 'f' } }] },
  ...more,
})

function speechOf(agent: string) {
  let said = ''
  const speech = createSpeech(agent, (text) => {
    said += text
  })
  return { speech, said: () => said }
}

test('pieces, then the rest of the whole; thoughts and answers of users are left out', () => {
  const { speech, said } = speechOf('ATLAS')
  for (const text of ['One ', 'two']) speech.piece(event('ATLAS', text))
  expect(said()).toBe('One two')
  speech.whole(event('ATLAS', 'One two three.'))
  speech.whole(event('user', 'yes', { invocationId: 'run_ATLAS' }))
  speech.whole(event('ATLAS', ''))
  speech.whole(event('ATLAS', 'Four.'))
  speech.end([])
  expect(said()).toBe('One two three.\n\nFour.')
})

test('while one message comes in pieces, those of others wait for its end', () => {
  const { speech, said } = speechOf('ATLAS')
  speech.piece(event('ATLAS', 'I be'))
  speech.piece(event('PULSE', 'Me '))
  speech.whole(event('WHALE', 'Hello.'))
  speech.piece(event('ATLAS', 'gin'))
  speech.whole(event('PULSE', 'Me too.'))
  expect(said()).toBe('I begin')
  speech.whole(event('ATLAS', 'I begin.'))
  expect(said()).toBe('I begin.\n\n**WHALE:** Hello.\n\n**PULSE:** Me too.')
  speech.piece(event('PULSE', 'Again'))
  speech.end([{ author: 'ATLAS', text: 'Really?' }])
  expect(said()).toBe('I begin.\n\n**WHALE:** Hello.\n\n**PULSE:** Me too.\n\nAgain\n\n**ATLAS:** Really?')
})

test('after a gap in its pieces a message is shown when it is whole', () => {
  const { speech, said } = speechOf('ATLAS')
  speech.miss('run_ATLAS')
  speech.piece(event('ATLAS', 'middle'))
  expect(said()).toBe('')
  speech.whole(event('ATLAS', 'begin, middle, end'))
  speech.piece(event('ATLAS', 'next'))
  speech.miss('run_ATLAS')
  speech.piece(event('ATLAS', ' lost'))
  speech.whole(event('ATLAS', 'next words'))
  // The pieces of a lost attempt are no beginning of the whole.
  speech.piece(event('ATLAS', 'first try'))
  speech.whole(event('ATLAS', 'second try'))
  expect(said()).toBe('begin, middle, end\n\nnext words\n\nfirst try\n\nsecond try')
})

test('messages that are too long to wait are shown at once, and the other one goes on under its name', () => {
  const { speech, said } = speechOf('ATLAS')
  speech.piece(event('ATLAS', 'I be'))
  const long = 'x'.repeat(40 * 1024)
  speech.whole(event('PULSE', long))
  speech.whole(event('PULSE', long))
  speech.piece(event('ATLAS', 'gin'))
  speech.whole(event('ATLAS', 'I begin.'))
  const text = said().replaceAll(long, 'LONG')
  expect(text).toBe('I be\n\n**PULSE:** LONG\n\n**ATLAS:** gin.\n\n**PULSE:** LONG')
})

test('tokens are those that nodes count', () => {
  const usage = createUsage()
  usage.add(event('ATLAS', 'x', { usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2 } }))
  usage.add(
    event('ATLAS', 'x', { usageMetadata: { promptTokenCount: 'many', candidatesTokenCount: -1, a: 1 } }),
  )
  usage.add(event('ATLAS', 'x'))
  expect(usage.counts).toEqual({ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 })
})
