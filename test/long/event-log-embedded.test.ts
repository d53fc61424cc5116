/** The embedded event log under kill -9: acknowledged records are there, in order, once. */

import { test } from 'vitest'
import { expectLogSurvives } from '../support/event-log-kills.ts'

test('twelve kills in mid-work lose nothing, reorder nothing and reuse no offset', { timeout: 600_000 }, () =>
  expectLogSurvives(12),
)
