/** The table of webhook targets, as people read it. */

import { expect, test } from 'vitest'
import { layOut } from '#cli/layout.ts'
import { listTargetsAction, type TargetsResult } from '#operations/webhooks/targets.ts'

const target: TargetsResult['targets'][number] = {
  target: 'audit-log',
  state: 'outage',
  partition: 0,
  lag: 3,
  head_sequence: 2,
  head_age_s: 9,
  last_sequence: 2,
  last_attempt: 4,
  head: null,
  breaker: 'open',
  next_attempt_at: '2026-11-21T21:45:07.601Z',
  last_status: null,
  last_fault: 'connect',
  last_at: '2026-11-21T21:45:05.610Z',
}

test('a target whose breaker is open is down', () => {
  const render = listTargetsAction.cli![0]!.render
  const file = { path: 'targets.yaml', readable: true }
  const shown = layOut(render({ targets: [target], couriers: 1, file, as_of: target.last_at! }))
  expect(shown).toContain('down')
  expect(shown).not.toContain('outage')
  expect(shown).toContain('next attempt')
})
