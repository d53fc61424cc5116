/** `flotilla chat`, as somebody at a terminal uses it: questions, faults, and how it ends. */

import { expect, test } from 'vitest'
import { confirmation, requestInput, responseIn } from '../support/asking-scripts.ts'
import { openChat, openTalkers } from '../support/chat.ts'
import { startFlotilla } from '../support/flotilla-process.ts'

test('a conversation: messages, an approval, questions in words, faults; Ctrl-D ends it and says how it goes on', async () => {
  const { node, home, file } = await openTalkers({
    atlas: (run) => (run.text === 'fail' ? [{ raise: 'no way' }] : confirmation(run)),
    nexus: requestInput,
  })
  await startFlotilla(home, { env: { RUN_NODES_FILE: file } })
  const chat = openChat(home, 'ATLAS', '--session', 'talk')
  chat.line('good morning')
  await chat.says('ATLAS: heard good morning')
  chat.line('')
  chat.line('pay')
  await chat.says('[ATLAS asks to call pay {"amount":7} (Pay 7?): approve or refuse?]')
  chat.line('Approve')
  await chat.says('ATLAS: Paid.')
  chat.line('fail')
  await chat.says('[failed: ')
  chat.line('still there?')
  await chat.says('ATLAS: heard still there?')
  chat.child.stdin!.end()
  const { code, stdout } = await chat.finished
  expect([code, stdout]).toEqual([
    1,
    expect.stringMatching(/\[go on with: flotilla chat ATLAS --session talk\]\n$/),
  ])
  expect(stdout).not.toContain('adk_request_confirmation')
  const runs = node.runs.filter(({ app }) => app === 'atlas')
  expect(runs.map(({ sessionId }) => sessionId)).toEqual(Array(5).fill('talk'))
  expect(responseIn(runs[2]!.body)).toMatchObject({ id: 'ask-1', response: { confirmed: true } })

  const asked = openChat(home, 'nexus', '--session', 'days')
  asked.line('book')
  await asked.says('[NEXUS asks: Which day?]')
  asked.child.stdin!.end()
  await asked.finished
  // The question waits for whoever goes on with the session.
  const again = openChat(home, 'nexus', '--session', 'days')
  await again.says('[NEXUS asks: Which day?]')
  for (const text of ['Monday', 'noon']) again.line(text)
  again.child.stdin!.end()
  expect(await again.finished).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('NEXUS: booked at noon'),
  })
})

test('without a platform, or for an agent that is not there, it says so', async () => {
  const { home, file } = await openTalkers({ atlas: confirmation })
  const alone = openChat(home, 'ATLAS')
  expect(await alone.finished).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('start it with flotilla start'),
  })
  await startFlotilla(home, { env: { RUN_NODES_FILE: file } })
  const wrong = openChat(home, 'NOBODY')
  wrong.line('hello')
  wrong.child.stdin!.end()
  expect(await wrong.finished).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('names no agent NOBODY'),
  })
})
