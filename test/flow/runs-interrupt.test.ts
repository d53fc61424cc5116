/** Messages that take the place of the run at work, on the embedded relational engine, and over HTTP. */

import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { openEmptyRelational } from '../support/relational.ts'
import { openRunsPlatform, talkOf } from '../support/runs-platform.ts'
import { describeInterrupts } from './runs-interrupt.promises.ts'

describeInterrupts('the embedded engine', () => openEmptyRelational())

test('the caller of the canceled run is answered 409 interrupted, the other one its answer', async () => {
  const platform = await openRunsPlatform()
  onTestFinished(() => platform.close())
  platform.script('whale', ({ text }) => (text === 'long' ? [{ hang: true }] : [{ text: 'here' }]))
  const fields = { sessionId: 's1' }
  const long = platform.run('whale', 'long', { fields })
  await eventually('it is at work', () => platform.node.runs.some(({ text }) => text === 'long'))
  const short = await platform.run('whale', 'short', { fields: { ...fields, onBusy: 'interrupt' } })
  expect([short.status, talkOf(short)]).toEqual([200, ['WHALE: here']])
  const first = await long
  expect([first.status, first.json.code]).toEqual([409, 'interrupted'])
  const shown = await platform.call('GET', `/runs/${first.headers.get('x-run-id')}`)
  expect(shown.json).toMatchObject({ status: 'canceled', error: { code: 'interrupted' } })
  const refused = await platform.run('whale', 'x', { fields: { onBusy: 'steal' } })
  expect(refused.status).toBe(422)
})
