/** kill -9 of the whole platform under load, ten times; test/faults/platform-kills.test.ts has two. */

import { test } from 'vitest'
import { expectPlatformSurvives } from '../support/platform-kills.ts'

test(
  'every acknowledged point survives ten kills, and the platform starts by itself each time',
  {
    timeout: 600_000,
  },
  () => expectPlatformSurvives(10),
)
