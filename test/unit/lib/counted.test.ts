import { expect, test } from 'vitest'
import { counted } from '#lib/counted.ts'

test('one is singular, everything else plural', () => {
  expect([0, 1, 2].map((count) => counted(count, 'record'))).toEqual(['0 records', '1 record', '2 records'])
})
