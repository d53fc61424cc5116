import { expect, test } from 'vitest'
import { plural } from '#lib/plural.ts'

test('one is singular, everything else plural', () => {
  expect([0, 1, 2].map((count) => plural(count, 'record'))).toEqual(['0 records', '1 record', '2 records'])
})
