/** Facts of the platform over its control socket: what they read, how often, and what they say where they cannot. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { openControlServer } from '#runtime/start/control.ts'
import { createFacts } from '#services/runs/reference-node/facts.ts'

let home: string
let server: Closeable | undefined

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'fl-'))
})

afterEach(async () => {
  await server?.close()
  server = undefined
  rmSync(home, { recursive: true, force: true })
})

async function platformOf(answers: Record<string, unknown>) {
  const asked: string[] = []
  server = await openControlServer(home, async ({ operation }) => {
    asked.push(operation)
    if (!(operation in answers)) throw new AppError('log_unavailable', 'The log is away.')
    return answers[operation]
  })
  return { asked, facts: createFacts({ home }) }
}

const topic = (name: string, records: number) => ({ topic: name, records })

test('answers at the same time share a call', async () => {
  const groups = [{ group: 'audit-writer', topic: 'audit.events', members: 1, lag: 3, stuck: [] }]
  const { asked, facts } = await platformOf({ lag: { groups } })
  expect(await Promise.all([facts.lag(), facts.lag()])).toEqual([groups, groups])
  expect(asked).toEqual(['lag'])
  await facts.lag()
  expect(asked).toEqual(['lag', 'lag'])
})

test('dead letters are counted one by one where they may be few, and not at all where there are none', async () => {
  const few = [topic('audit.events', 5_000), topic('audit.events.dead-letters', 3)]
  const some = await platformOf({
    'topics list': { topics: few },
    'dead-letters list': { dead_letters: [{}] },
  })
  expect(await some.facts.deadLetters()).toEqual({ count: 1, atMost: false })
  await server?.close()
  const none = await platformOf({ 'topics list': { topics: [topic('audit.events', 5_000)] } })
  expect(await none.facts.deadLetters()).toEqual({ count: 0, atMost: false })
  expect(await none.facts.targetLetters()).toEqual(new Map())
  await server?.close()
  const many = [topic('audit.events.dead-letters', 600), topic('webhooks.deliveries.dead-letters', 1_001)]
  const full = await platformOf({ 'topics list': { topics: many } })
  expect(await full.facts.deadLetters()).toEqual({ count: 1_601, atMost: true })
  await expect(full.facts.targetLetters()).rejects.toThrow('there may be 1001')
})

test('dead letters of targets, and the role of a person without their e-mail', async () => {
  const { facts } = await platformOf({
    'topics list': { topics: [topic('webhooks.deliveries.dead-letters', 3)] },
    'webhooks dead-letters list': { dead_letters: [{ target: 'a' }, { target: 'b' }, { target: 'a' }] },
    'users list': { users: [{ uid: 'person_ana', role: 'viewer', email: 'ana@example.com' }] },
  })
  expect(await facts.targetLetters()).toEqual(
    new Map([
      ['a', 2],
      ['b', 1],
    ]),
  )
  expect(await facts.accessOf('person_ana')).toBe('viewer')
  expect(await facts.accessOf('person_bob')).toBeUndefined()
})

test('what cannot be read is an error in plain words', async () => {
  const alone = createFacts({ home })
  await expect(alone.lag()).rejects.toThrow('no platform runs on the data directory')
  await expect(alone.nodes()).rejects.toThrow('only the process of the platform knows them')
  const { facts } = await platformOf({})
  await expect(facts.targets()).rejects.toThrow('The log is away.')
})
