/** Messages to agents over HTTP: answers, streams, refusals. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
}, 60_000)
afterAll(() => platform?.close())

describe('a message to an agent', () => {
  it('is answered with its events, as ADK answers', async () => {
    const answer = await platform.run('whale', 'hello')
    expect(answer.text).toContain('whale heard')
    expect(answer.status).toBe(200)
    expect(talkOf(answer)).toEqual(['WHALE: whale heard: hello'])
  })
})
