/** One call of each kind that writes to the database or to a file, at every interface. */

import { type Answer, call } from './gateway-call.ts'
import { makePerson, newBrowser } from './people.ts'
import type { RunsPlatform } from './runs-platform.ts'

type Write = [what: string, write: () => Promise<Pick<Answer, 'status' | 'json'>>]

export interface InterfaceWrites {
  all: Write[]
  /** A POST to the main API as an admin. */
  main(path: string, body: unknown): Promise<Answer>
}

/** Provisions the agent `whale` and makes the person who signs in. */
export async function prepareWrites(platform: RunsPlatform): Promise<InterfaceWrites> {
  const token = await platform.tokenFor('admin')
  const key = await platform.keyFor('member')
  const { email, password } = await makePerson(platform, 'ana@x')
  await platform.provision({ agentId: 'whale' })
  let names = 0
  const newName = () => `made-${++names}`
  const main = (path: string, body: unknown) => call(platform.baseUrl, `/api/v1${path}`, { key: token, body })
  const hub = (path: string, body: unknown) => call(platform.hubUrl, path, { key, body })
  async function signIn() {
    const { status, data } = await newBrowser(platform).ask('/api/v1/session', { body: { email, password } })
    return { status, json: data }
  }
  const dispatch = () => ({ message: 'Hello, WHALE.', sessionId: newName(), userId: 'u' })
  const handshake = { agent_id: 'whale', nonce: 'ab'.repeat(16) }
  const all: Write[] = [
    ['a note', () => hub('/fleet_notes', { subject: 'a', body: 'b' })],
    ['a goal', () => hub('/goals', { title: 'a', description: 'b' })],
    ['a run', () => platform.run('whale', 'hello')],
    ['a dispatch', () => platform.call('POST', '/dispatch', { body: dispatch() })],
    ['an agent', () => main('/agents', { agent_id: newName() })],
    ['an agent with a volume', () => main('/agents', { agent_id: newName(), volume: newName() })],
    ['an agent key', () => main('/agent-keys', { agent_id: 'whale' })],
    ['a person', () => main('/users', { email: `${newName()}@x`, role: 'viewer', name: 'New' })],
    ['a sign-in', signIn],
    ['a handshake', () => call(platform.vectorUrl, '/v1/auth/handshake', { body: handshake })],
  ]
  return { all, main }
}
