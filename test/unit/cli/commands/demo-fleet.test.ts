/** The content of the demo: all that it names is there, and takes part in the story. */

import { expect, test } from 'vitest'
import { collections } from '#engines/vectors/collections.ts'
import { tiers } from '#services/access/agents/agents.ts'
import { goalStatuses } from '#services/records/goals/goals.ts'
import { noteStatuses } from '#services/records/notes/notes.ts'
import { priorities } from '#services/records/store/kind.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'
import { webhookEvents } from '#services/webhooks/event.ts'
import { demoRole, readFleet } from '../../../../cli/commands/demo-fleet.ts'

const fleet = readFleet()
const ids = fleet.agents.map(({ agent_id }) => agent_id)
const oneOf = (values: readonly string[]) => expect.toSatisfy((value: string) => values.includes(value))

test('each author is an agent of the demo, and only replies are by the operator', () => {
  const { documents, threads, goals, runs, dispatches, events } = fleet
  const authors = [...documents, ...threads, ...goals, ...runs, ...dispatches].map(({ by }) => by)
  expect([...authors, ...events.map(({ agent }) => agent)].filter((by) => !ids.includes(by))).toEqual([])
  const replies = threads.flatMap((thread) => thread.replies ?? []).map(({ by }) => by)
  expect(replies.filter((by) => !ids.includes(by) && by !== 'operator')).toEqual([])
  expect(replies).toContain('operator')
  // Nobody is there for nothing.
  for (const id of ids) expect(authors).toContain(id)
})

test('tiers, collections, states and events are those of the platform', () => {
  for (const { role, tier } of fleet.agents) {
    expect(role.startsWith(demoRole) && role.length <= 64).toBe(true)
    expect(tier).toEqual(oneOf(tiers))
  }
  for (const { collection } of fleet.documents) expect(collection).toEqual(oneOf(collections))
  for (const { status = 'active', priority = 'normal' } of fleet.threads) {
    expect([status, priority]).toEqual([oneOf(noteStatuses), oneOf(priorities)])
  }
  expect(new Set(fleet.goals.map(({ status }) => status))).toEqual(new Set(goalStatuses))
  const slugs = referenceAgents.map(({ slug }) => slug)
  for (const { to } of fleet.runs) expect(to).toEqual(oneOf(slugs))
  for (const { event } of fleet.events) expect(event).toEqual(oneOf(webhookEvents))
})

test('every event has a target that takes it, and some are refused', () => {
  for (const { event } of fleet.events) {
    expect(fleet.targets.some(({ events, answer }) => answer < 300 && events.includes(event))).toBe(true)
  }
  // Any other 4xx would be tried again, or be an outage.
  expect(fleet.targets.map(({ answer }) => answer)).toContain(410)
})
