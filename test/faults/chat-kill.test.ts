/** `flotilla chat` over a platform that is killed and started again. */

import { expect, test } from 'vitest'
import { confirmation, responseIn } from '../support/asking-scripts.ts'
import { openChat, openTalkers } from '../support/chat.ts'
import { eventually } from '../support/eventually.ts'
import { startFlotilla } from '../support/flotilla-process.ts'

test('it goes on where the platform is killed and started again, with a question and in the middle of an answer', async () => {
  const held = Promise.withResolvers<void>()
  const { node, home, file } = await openTalkers({
    async *atlas(run) {
      if (run.text !== 'long') return yield* confirmation(run)
      await held.promise
      yield { text: 'at last' }
    },
  })
  const env = { RUN_NODES_FILE: file }
  const first = await startFlotilla(home, { env })
  const chat = openChat(home, 'ATLAS')
  chat.line('pay')
  await chat.says('approve or refuse?')
  first.child.kill('SIGKILL')
  await first.finished
  chat.line('yes')
  await chat.says('[the platform is away; waiting until it is back]')
  const second = await startFlotilla(home, { env })
  await chat.says('ATLAS: Paid.')
  chat.line('long')
  await eventually('the node has it', () => node.runs.some(({ text }) => text === 'long'))
  second.child.kill('SIGKILL')
  await second.finished
  await startFlotilla(home, { env })
  held.resolve()
  await chat.says('ATLAS: at last')
  chat.line('and now?')
  await chat.says('ATLAS: heard and now?')
  chat.child.stdin!.end()
  expect(await chat.finished).toMatchObject({ code: 0, stderr: '' })
  expect(new Set(node.runs.map(({ sessionId }) => sessionId)).size).toBe(1)
  expect(node.runs.filter(({ body }) => responseIn(body))).toHaveLength(1)
})
