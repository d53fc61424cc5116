/** The relay on embedded engines, and what stops its start. */

import { expect, test } from 'vitest'
import { openRelayPlatform } from '../support/relay-platform.ts'
import { describeRelay } from './webhook-relay.promises.ts'

describeRelay('embedded', async () => ({}))

test('a faulty targets file stops the start before anything is opened; so does a variable that is unset', async () => {
  const start = (targets: string) => openRelayPlatform({ targets })
  await expect(start('targets:\n  a:\n    url: http://a.example\n')).rejects.toMatchObject({
    code: 'invalid_configuration',
    message: expect.stringMatching(/line 3: targets\.a\.url must begin with https/),
  })
  await expect(
    start(
      `targets:\n  a:\n    url: https://a.example\n    headers:\n      Authorization: Bearer \${NOT_SET}\n`,
    ),
  ).rejects.toThrow(/environment variable NOT_SET/)
})

test('a host beyond the loopback stops the start, naming the variable', async () => {
  await expect(openRelayPlatform({ env: { WEBHOOK_GATEWAY: '0.0.0.0:9090' } })).rejects.toThrow(
    /WEBHOOK_GATEWAY names 0\.0\.0\.0, but this interface is never opened beyond the loopback/,
  )
})
