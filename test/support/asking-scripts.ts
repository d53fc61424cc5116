/** Agents of scripted nodes that ask, as google-adk does it: one script for each form of a question. */

import type { Script, Step } from './scripted-node.ts'

const model = (parts: object[], more: object = {}): Step => ({
  event: { content: { role: 'model', parts }, ...more },
})
const tool = (parts: object[], more: object = {}): Step => ({
  event: { content: { role: 'user', parts }, ...more },
})

/** A message that answers: the response of a call, or text. */
export function responseIn(body: Record<string, unknown>): Record<string, unknown> | undefined {
  const { parts = [] } = (body.newMessage ?? {}) as {
    parts?: { functionResponse?: Record<string, unknown> }[]
  }
  return parts.find(({ functionResponse }) => functionResponse)?.functionResponse
}

/** `require_confirmation`: the confirmation of a tool, then the tool's own refusal. */
export const confirmation: Script = ({ body, text }) => {
  const response = responseIn(body) as { response?: { confirmed?: boolean } } | undefined
  if (response) return [{ text: response.response?.confirmed ? 'Paid.' : 'Not paid.' }]
  if (text !== 'pay') return [{ text: `heard ${text}` }]
  const originalFunctionCall = { id: 'call-1', name: 'pay', args: { amount: 7 } }
  const args = { originalFunctionCall, toolConfirmation: { hint: 'Pay 7?', confirmed: false } }
  return [
    model([{ functionCall: originalFunctionCall }]),
    model([{ functionCall: { id: 'ask-1', name: 'adk_request_confirmation', args } }], {
      longRunningToolIds: ['ask-1'],
    }),
    tool(
      [{ functionResponse: { id: 'call-1', name: 'pay', response: { error: 'requires confirmation' } } }],
      {
        actions: { requestedToolConfirmations: { 'call-1': { hint: 'Pay 7?' } } },
      },
    ),
  ]
}

/** A long-running tool; with its first response and words of the model behind the call, or without. */
export const longRunning =
  (withResponse: boolean): Script =>
  ({ body, text }) => {
    const response = responseIn(body)
    if (response) return [{ text: `done: ${JSON.stringify(response.response)}` }]
    if (text !== 'file it') return [{ text: `heard ${text}` }]
    const call = model([{ functionCall: { id: 'long-1', name: 'file', args: { title: 'x' } } }], {
      longRunningToolIds: ['long-1'],
    })
    if (!withResponse) return [call]
    const first = { id: 'long-1', name: 'file', response: { status: 'pending' } }
    return [call, tool([{ functionResponse: first }]), { text: 'It is filed, and waits.' }]
  }

/** Two approvals in one turn; tells which one it got. */
export const twoConfirmations: Script = ({ body, text }) => {
  const response = responseIn(body)
  if (response) return [{ text: `answered ${response.id}` }]
  if (text !== 'pay both') return [{ text: `heard ${text}` }]
  const ids = ['ask-1', 'ask-2']
  const calls = ids.map((id) => ({ functionCall: { id, name: 'adk_request_confirmation', args: {} } }))
  return [model(calls, { longRunningToolIds: ids })]
}

/** `adk_request_input`, in a piece that is never sent as a whole; it asks once more after the first answer. */
export const requestInput: Script = ({ text }) => {
  const ask = (id: string, question: string) =>
    model([{ functionCall: { id, name: 'adk_request_input', args: { message: question } } }], {
      longRunningToolIds: [id],
      partial: true,
    })
  if (text === 'book') return [ask('input-1', 'Which day?')]
  if (text === 'Monday') return [ask('input-2', 'At what time?')]
  return [{ text: `booked at ${text}` }]
}
