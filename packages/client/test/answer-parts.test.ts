/** What people type: an approval, a refusal, or any other text. */

import { expect, it } from 'vitest'
import { answerParts } from '../src/answer-parts.ts'

it.each([
  ['approve', true],
  [' YES\n', true],
  ['Refuse', false],
  ['no', false],
])('%j answers each confirmation, and nothing else', (text, confirmed) => {
  const calls = [
    { id: 'a', name: 'adk_request_confirmation' },
    { id: 'b', name: 'file' },
    { id: 'c', name: 'adk_request_confirmation' },
  ]
  const response = (id: string) => ({
    functionResponse: { id, name: 'adk_request_confirmation', response: { confirmed } },
  })
  expect(answerParts({ calls }, text)).toEqual([response('a'), response('c')])
  expect(answerParts({ calls: [calls[1]!] }, text)).toEqual([{ text }])
  expect(answerParts({ calls }, `${text} please`)).toEqual([{ text: `${text} please` }])
})
