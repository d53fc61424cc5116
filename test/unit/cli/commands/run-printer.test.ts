/** What the terminal shows of messages that come whole, in pieces, and of several agents at once. */

import { expect, test } from 'vitest'
import { createRunPrinter } from '#cli/commands/run-printer.ts'
import type { FollowedItem } from '#operations/runs-follow.ts'

type Given = [kind: 'partial' | 'event', author: string, text: string, more?: object]

function printed(items: (Given | FollowedItem)[]): string {
  let out = ''
  const printer = createRunPrinter((text) => {
    out += text
  })
  for (const item of items) printer.print(Array.isArray(item) ? itemOf(item) : item)
  printer.end()
  return out
}

function itemOf([kind, author, text, more]: Given): FollowedItem {
  const content = { parts: [{ text }] }
  return { kind, event: { id: '1', author, invocationId: `run_${author}`, timestamp: 1, content, ...more } }
}

const failed: FollowedItem = { kind: 'status', agent: 'CIPHER', status: 'failed', error: 'no node\x1b[2J' }

test('pieces are shown at once, and the whole text adds only the missing rest', () => {
  expect(
    printed([
      ['partial', 'ATLAS', 'one '],
      ['partial', 'ATLAS', 'two '],
      ['event', 'ATLAS', 'one two three'],
      ['event', 'ATLAS', 'again'],
    ]),
  ).toBe('ATLAS: one two three\nATLAS: again\n')
})

test('a whole text that its pieces do not begin is shown once more', () => {
  expect(
    printed([
      ['partial', 'ATLAS', 'two '],
      ['event', 'ATLAS', 'one two'],
    ]),
  ).toBe('ATLAS: two \nATLAS: one two\n')
})

test('other agents wait for the end of the message that is being shown', () => {
  expect(
    printed([
      ['partial', 'ATLAS', 'a'],
      ['partial', 'PULSE', 'p'],
      ['partial', 'WHALE', 'w'],
      ['event', 'PULSE', 'pq'],
      failed,
      ['partial', 'WHALE', 'x'],
      ['event', 'ATLAS', 'ab'],
      ['partial', 'WHALE', 'y'],
      ['event', 'WHALE', 'wxyz'],
    ]),
  ).toBe('ATLAS: ab\nPULSE: pq\n[CIPHER failed: no node\\x1b[2J]\nWHALE: wxyz\n')
})

test('an unfinished line is ended, and pending pieces are shown', () => {
  expect(
    printed([
      ['partial', 'ATLAS', 'a'],
      ['event', 'PULSE', 'p'],
    ]),
  ).toBe('ATLAS: a\nPULSE: p\n')
})

test('calls, errors and thoughts', () => {
  const parts = [{ text: 'hm', thought: true }, { functionCall: { name: 'find' } }]
  expect(
    printed([
      ['event', 'ATLAS', '', { content: { parts } }],
      ['event', 'ATLAS', '', { content: undefined, errorCode: 'QUOTA', errorMessage: 'no more' }],
    ]),
  ).toBe('ATLAS calls find\nATLAS failed: no more\n')
})
