/** `flotilla notes`, `flotilla goals` and `flotilla rebuild notes`, as operators use them. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { operations } from '#operations/list.ts'
import type { Operation, OperationContext } from '#operations/operation.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'
import { recordsOf } from '../support/log-reading.ts'

let hub: HubPlatform
beforeAll(async () => {
  hub = await openHubPlatform()
})
afterAll(() => hub?.close())

// biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
async function operate(name: string, args: object): Promise<any> {
  const operation = operations.find((one) => one.name === name) as Operation
  const context = {
    platform: hub.platform,
    output: { item() {}, progress() {} },
    signal: new AbortController().signal,
    actor: { kind: 'command_line', id: 'tester' },
  } as unknown as OperationContext<unknown>
  return operation.run(context, args as Record<string, unknown>)
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error) => error.code,
  )

test('an operator writes a note, replies to it in the name of an agent, and reads the thread', async () => {
  const note = await operate('notes add', { subject: 'x'.repeat(512), body: 'b', priority: 'urgent' })
  expect(note).toMatchObject({ author: 'operator', priority: 'urgent', status: 'active', parent_id: null })
  await hub.provision({ agentId: 'whale' })
  const reply = await operate('notes reply', { parent_id: note.id, body: 'seen', author: 'WHALE' })
  expect(reply).toMatchObject({ author: 'whale', thread_id: note.thread_id, parent_id: note.id })
  expect(reply.subject).toBe(`Re: ${'x'.repeat(508)}`)
  const again = await operate('notes reply', { parent_id: reply.id, body: 'and?' })
  expect(again.subject).toBe(reply.subject)
  const { thread } = await operate('notes show', { id: reply.id })
  expect(thread.map(({ id }: { id: number }) => id)).toEqual([note.id, reply.id, again.id])
  const { notes } = await operate('notes list', { author: 'whale', limit: 5 })
  expect(notes).toEqual([reply])
  // The hub shows the same, and the agent may change notes written in its name.
  const key = await hub.keyFor('viewer')
  expect((await hub.call('GET', `/fleet_notes/${reply.id}`, { key })).json).toEqual(reply)
})

test('operators are bound by the same rules as requests', async () => {
  for (const args of [{ subject: '' }, { subject: 'x'.repeat(513) }, { subject: 'a', priority: 'huge' }]) {
    expect(await codeOf(operate('notes add', { body: 'b', ...args }))).toBe('validation_failed')
  }
  expect(await codeOf(operate('notes add', { subject: 's', body: 'b', author: 'nobody' }))).toBe('not_found')
  expect(await codeOf(operate('notes reply', { parent_id: 9_999, body: 'b' }))).toBe('not_found')
  expect(await codeOf(operate('notes list', { thread_id: 'x' }))).toBe('validation_failed')
  expect(await codeOf(operate('goals set', { id: 9_999, status: 'active' }))).toBe('not_found')
})

test('an operator moves any goal, as its states allow', async () => {
  const key = await hub.keyFor('member')
  const { json } = await hub.call('POST', '/goals/', { key, body: { title: 't' } })
  expect((await operate('goals set', { id: json.id, status: 'active', title: 'u' })).status).toBe('active')
  expect(await codeOf(operate('goals set', { id: json.id, status: 'pending' }))).toBe('invalid_transition')
  expect(await operate('goals show', { id: json.id })).toMatchObject({ title: 'u', author: 'key-member' })
  const made = await operate('goals add', { title: 'of an operator', description: 'd' })
  expect((await operate('goals list', { author: 'operator' })).goals).toEqual([made])
})

test('a rebuild writes the points of all notes again, and deletes those of archived ones', async () => {
  const key = await hub.keyFor('member')
  const made = await Promise.all(
    ['one', 'two', 'three'].map((subject) =>
      hub.call('POST', '/fleet_notes/', { key, body: { subject, body: 'b' } }),
    ),
  )
  const ids = made.map(({ json }) => Number(json.id))
  await hub.call('PATCH', `/fleet_notes/${ids[2]}`, { key, body: { status: 'archived' } })
  const points = async () => {
    const records = await recordsOf(hub.platform, vectorsCommands)
    return ids.map((id) => records.filter((record) => record.key === `fleet_notes/note-${id}`))
  }
  const before = await eventually('the points', async () => {
    const found = await points()
    return found[0]!.length > 0 && found[1]!.length > 0 && found[2]!.at(-1)?.value === null
      ? found
      : undefined
  })
  const { records } = await operate('rebuild notes', {})
  expect(records).toBeGreaterThanOrEqual(3)
  const after = await eventually('the points once more', async () => {
    const found = await points()
    return found.every((some, n) => some.length > before[n]!.length) ? found : undefined
  })
  expect(after.map((some) => some.at(-1)!.value === null)).toEqual([false, false, true])
})
