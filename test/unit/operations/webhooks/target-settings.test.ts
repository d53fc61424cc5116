/** What of the targets file may be shown: no value that could be a secret. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readTargetSettings, shownUrl } from '#operations/webhooks/target-settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'fl-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('settings are shown with their defaults, and without a header, a secret or a path', () => {
  const file = join(folder, 'targets.yaml')
  const text = `targets:
  audit:
    url: https://hooks.example.com/T0/hush-hush?token=hush
    headers:
      Authorization: Bearer hush
    signing_secret: \${SIGNING}
    events: [task.failed]
    retry: 2
`
  writeFileSync(file, text)
  const env = { WEBHOOK_TARGETS_FILE: file, FLOTILLA_HOME: folder }
  const settings = readTargetSettings(env, 'audit')
  expect(settings).toEqual({
    url: 'https://hooks.example.com/…',
    headers: ['Authorization'],
    signed: true,
    events: ['task.failed'],
    agents: null,
    ordering: 'target',
    on_exhausted: 'dead_letter',
    retry: 2,
    backoff_ms: 100,
    hold_hours: 72,
  })
  expect(JSON.stringify(settings)).not.toContain('hush')
  expect(readTargetSettings(env, 'nobody')).toBe(null)
  expect(readTargetSettings({ ...env, WEBHOOK_TARGETS_FILE: join(folder, 'none') }, 'audit')).toBe(null)
})

test('of an address only what names the receiver is shown', () => {
  expect(shownUrl('https://example.com')).toBe('https://example.com')
  expect(shownUrl('https://$' + '{HOST}/x')).toBe('https://$' + '{HOST}/…')
  expect(shownUrl('$' + '{URL}')).toBe('$' + '{URL}')
  expect(shownUrl('https://user:hush@example.com/')).toBe('…')
  expect(shownUrl('hush')).toBe('…')
})
