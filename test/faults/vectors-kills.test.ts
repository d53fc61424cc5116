/** kill -9 in mid-write, again and again at one folder: nothing acknowledged is lost, and search finds it. */

import { test } from 'vitest'
import { temporaryFolder } from '#test/support/temporary.ts'
import { expectNothingLost } from '#test/support/vectors-kills.ts'

test('four kills at one folder lose no acknowledged point', { timeout: 600_000 }, async () => {
  await expectNothingLost(temporaryFolder(), 4, 8)
})
