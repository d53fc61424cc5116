/** How an agent is tested against a whole platform, with vitest. docs/testing-agents.md explains it. */

import { type Client, createClient } from '@flotilla/client'
import { type Platform, startPlatform } from 'flotilla'
import { afterAll, beforeAll, expect, test } from 'vitest'

/** The agent under test: it keeps what it learns, and answers with the nearest thing that it knows. */
function createAgent(client: Client) {
  return {
    async learn(id: string, title: string) {
      await client.remember('knowledgebase', [{ id, text: title, payload: { title } }])
    },
    async answer(question: string) {
      const { results } = await client.recall('knowledgebase', question, { limit: 1 })
      return results[0]?.payload?.title
    },
  }
}

let platform: Platform
let client: Client
beforeAll(async () => {
  platform = await startPlatform()
  client = createClient({ ...platform.addresses, ...(await platform.provisionAgent('scout')) })
}, 60_000)
afterAll(async () => {
  await client?.close()
  await platform?.stop()
})

test('the agent answers with what it has learned', async () => {
  const agent = createAgent(client)
  await agent.learn('lighthouse', 'The lighthouse is repaired')
  await agent.learn('ferry', 'The ferry leaves at nine')
  expect(await agent.answer('When does the ferry leave?')).toBe('The ferry leaves at nine')
})

test('another agent of the platform answers a message', async () => {
  const { events } = await client.runs.run('atlas', 'When does the ferry leave?')
  expect(events[0]).toMatchObject({ author: 'ATLAS' })
})

test('the agent knows it after a crash of the platform, too', { timeout: 60_000 }, async () => {
  const agent = createAgent(client)
  await agent.learn('harbour', 'The harbour master is away')
  await platform.kill()
  await platform.restart()
  expect(await agent.answer('Where is the harbour master?')).toBe('The harbour master is away')
})
