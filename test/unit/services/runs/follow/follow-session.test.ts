/** Positions of readers in a session. */

import { expect, test } from 'vitest'
import { openMax, positionText, readPosition, sessionStart } from '#services/runs/follow/follow-session.ts'

test('a position is read as it was written', () => {
  for (const open of [
    [],
    [[3, 0]],
    [
      [3, 7],
      [9, 0],
      [12, 999_999],
    ],
  ] as [number, number][][]) {
    const position = { upTo: 12, open: new Map(open) }
    expect(readPosition(positionText(position))).toEqual(position)
  }
  expect(readPosition(positionText(sessionStart()))).toEqual(sessionStart())
})

test('a tree of which nothing was given is not in it', () => {
  const position = { upTo: 5, open: new Map([[5, -1]]) }
  expect(readPosition(positionText(position))).toEqual({ upTo: 5, open: new Map() })
})

test.each(['', 's', 's1,2', 's1,2.', 's-1', 's1.2', 's01', 's1,2.3,2.4', 's1 ', `s${'9'.repeat(16)}`])(
  'anything else is none: %s',
  (text) => {
    expect(readPosition(Buffer.from(text).toString('base64url'))).toBeUndefined()
  },
)

test('more trees than are followed at once are none', () => {
  const trees = Array.from({ length: openMax + 1 }, (_, n) => `,${n + 1}.1`).join('')
  expect(readPosition(Buffer.from(`s1${trees}`).toString('base64url'))).toBeUndefined()
})
