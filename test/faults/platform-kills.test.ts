/** kill -9 of the whole platform under load: what it acknowledged is there after the next start. */

import { test } from 'vitest'
import { expectPlatformSurvives } from '../support/platform-kills.ts'

test(
  'every acknowledged point survives two kills, and the platform starts by itself each time',
  {
    timeout: 300_000,
  },
  () => expectPlatformSurvives(2),
)
