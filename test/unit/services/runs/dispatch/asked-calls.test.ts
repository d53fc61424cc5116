/** Questions in the events of agents: each form of google-adk, and events that ask nothing. */

import { expect, it } from 'vitest'
import { AskedCalls } from '#services/runs/dispatch/asked-calls.ts'
import type { RunEvent } from '#services/runs/state/types.ts'

const event = (fields: object): RunEvent => ({
  id: 'e',
  author: 'WHALE',
  invocationId: 'r',
  timestamp: 1,
  ...fields,
})
const calling = (id: unknown, name: string, args: unknown = {}) =>
  event({ content: { parts: [{ functionCall: { id, name, args } }] }, longRunningToolIds: [id] })

function asked(...events: RunEvent[]): AskedCalls {
  const calls = new AskedCalls([])
  for (const one of events) if (calls.isNew(one)) calls.add(one)
  return calls
}

it.each([
  ['no ids', event({})],
  ['an empty list', event({ longRunningToolIds: [] })],
  ['ids that are none', event({ longRunningToolIds: [1, null, '', 'x'.repeat(257)] })],
  ['no list', event({ longRunningToolIds: 'ask-1' })],
])('%s ask nothing', (_, one) => {
  expect(asked(one).question('words')).toBeNull()
})

it('the words are the hint, then the message, then what the agent said', () => {
  const confirmation = calling('a', 'adk_request_confirmation', { toolConfirmation: { hint: 'Pay?' } })
  expect(asked(confirmation).question('said')!.text).toBe('Pay?')
  expect(asked(calling('b', 'adk_request_input', { message: 'When?' })).question('said')!.text).toBe('When?')
  expect(asked(calling('c', 'file')).question('said')!.text).toBe('said')
  expect(asked(calling('c', 'file')).question('a\0b')!.text).toBe('a\ufffdb')
})

it('a call asks once; one without its part is known by its id', () => {
  const twice = asked(calling('a', 'x'), calling('a', 'x'), event({ longRunningToolIds: ['b'] }))
  expect(twice.question('')!.calls).toEqual([
    { id: 'a', name: 'x', args: {} },
    { id: 'b', name: '' },
  ])
})

it('is bounded: 16 calls, 8 KiB of arguments', () => {
  const many = asked(
    ...Array.from({ length: 20 }, (_, n) => calling(`c${n}`, 'x', { text: 'y'.repeat(1_000) })),
  )
  const { calls } = many.question('z'.repeat(5_000))!
  expect(calls).toHaveLength(16)
  expect(calls.filter(({ args }) => args !== undefined)).toHaveLength(8)
  expect(JSON.stringify(many.question('z'.repeat(5_000))).length).toBeLessThan(12_000)
})

it('calls that are not answered yet are asked again', () => {
  const calls = new AskedCalls([{ id: 'open', name: 'file', args: { title: 'x' } }])
  expect(calls.question('said')).toEqual({
    calls: [{ id: 'open', name: 'file', args: { title: 'x' } }],
    text: 'said',
  })
  expect(calls.isNew(calling('open', 'file'))).toBe(false)
  calls.add(calling('new', 'file'))
  expect(calls.question('')!.calls.map(({ id }) => id)).toEqual(['open', 'new'])
})
