/** Positions in a topic: they come back as they were made, and nothing else is taken for one. */

import { expect, test } from 'vitest'
import { positionText, readPosition } from '#operations/topic-stream/position.ts'

const refusal = expect.objectContaining({ code: 'validation_failed' })
const read = (text: string) => {
  try {
    return readPosition(text, '/from')
  } catch (error) {
    return error
  }
}

test.each([
  { epoch: 1, next: [0], text: '0:0' },
  { epoch: 1, next: [12, 40], text: '0:12,1:40' },
  { epoch: 2, next: [12, 40], text: 'e2/0:12,1:40' },
  { epoch: 4_000, next: [Number.MAX_SAFE_INTEGER], text: `e4000/0:${Number.MAX_SAFE_INTEGER}` },
])('a position gives back its places: $text', ({ epoch, next, text }) => {
  const position = { epoch, next: new Map(next.entries()) }
  expect(positionText(position)).toBe(text)
  expect(readPosition(text, '/from')).toEqual(position)
})

test('a position of as many partitions as a topic may have is read', () => {
  const next = new Map(Array.from({ length: 1_024 }, (_, n) => [n, 10 ** 15 + n]))
  expect(readPosition(positionText({ epoch: 1, next }), '/from').next).toEqual(next)
})

test('partitions may be left out, and come in any order', () => {
  expect([...readPosition('7:3,2:5', '/from').next]).toEqual([
    [7, 3],
    [2, 5],
  ])
})

test.each([
  '',
  '0',
  '0:',
  ':1',
  '0:1,',
  '0:1,0:2',
  '0:-1',
  '0:1.5',
  '0:9007199254740992',
  'e1/0:1',
  'e/0:1',
  'e2/',
  'beginning',
  ' 0:1',
  '0:1\n',
  '٣:1',
  '__proto__',
  '🙂',
  `0:1${',1:1'.repeat(10_000)}`,
])('%j is refused', (text) => {
  expect(read(text)).toEqual(refusal)
})
