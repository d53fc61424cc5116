/** The platform's time limits fit together, and a start with limits that do not is refused. */

import { expect, test } from 'vitest'
import { checkDeadlines, type Deadlines, deadlines, orders } from '#lib/deadlines.ts'

test('the limits of the platform fit together', () => {
  expect(() => checkDeadlines()).not.toThrow()
})

/** One change for each order that breaks it. */
const faults: [shorter: string, change: (limits: Deadlines) => void][] = [
  ['a write of points', (d) => (d.engine.vectorWriteMs = 31_000)],
  ['vectors made again', (d) => (d.handler.remakeMs = 16_000)],
  ['a read of points', (d) => (d.engine.vectorReadMs = 21_000)],
  ['asking a silent connection to the vector engine', (d) => (d.engine.vectorPingMs = 6_000)],
  ['a write of the mirror', (d) => (d.engine.mirrorWriteMs = 121_000)],
  ['connecting to Postgres', (d) => (d.engine.postgresConnectMs = 31_000)],
  ['a statement', (d) => (d.engine.postgresStatementMs = 61_000)],
  ['an append', (d) => (d.engine.logAppendMs = 95_000)],
  ['an append', (d) => (d.engine.logAppendMs = 125_000)],
  ['publishing deliveries', (d) => (d.publish.fleetEventsMs = 21_000)],
  ['a webhook', (d) => (d.webhookCallMs = 6_000)],
  ['a publish of points', (d) => (d.request.pointsMs = 2_100)],
  ['both tries of an audit event', (d) => (d.request.auditMs = 1_200)],
  ['a publish of deliveries', (d) => (d.request.fireMs = 1_950)],
  ['the answer of a fire', (d) => (d.request.awayMs = 1_800)],
  ['assigning a target', (d) => (d.request.assignMs = 1_800)],
  ['a question about limits', (d) => (d.request.limitsMs = 2_100)],
  ['connecting to the log', (d) => (d.engine.logConnectMs = 3_000)],
  ['reaching a broker', (d) => (d.engine.logAskMs = 900)],
  ['a wait for records', (d) => (d.engine.logFetchWaitMs = 6_000)],
  ['a write at its broker', (d) => (d.engine.logBrokerWriteMs = 6_000)],
  ['a request to the log', (d) => (d.engine.logRequestMs = 5_500)],
  ['a request without an answer, and the question who leads now', (d) => (d.silenceMs = 7_000)],
  ['two heartbeats without an answer, and their pauses', (d) => (d.engine.logHeartbeatMs = 2_500)],
  ['a commit', (d) => (d.engine.logCommitMs = 7_000)],
  ['the drain of a partition that moves', (d) => (d.session.handOverCallsMs = 1_000)],
  ['a hand-over', (d) => (d.session.handOverMs = 6_500)],
  ['a session', (d) => (d.session.rebalanceMs = 5_000)],
  ['three sends of the outbox', (d) => (d.publish.outboxMs = 6_000)],
  ['the drain of a member', (d) => (d.stop.callsMs = 30_000)],
  ['the stop of requests, workers and engines, and the last spans', (d) => (d.stop.requestsMs = 9_000)],
  ['the last writes of a worker', (d) => (d.stop.lastWritesMs = 5_000)],
  ['the stop of resources', (d) => (d.stop.resourcesMs = 9_900)],
  ['the whole stop', (d) => (d.stop.allMs = 10_500)],
]

test.each(faults)('%s that takes too long is reported', (shorter, change) => {
  const limits = structuredClone(deadlines)
  change(limits)
  expect(() => checkDeadlines(limits)).toThrow(`${shorter} (`)
})

test('every order has its fault here', () => {
  expect(faults.map(([shorter]) => shorter)).toEqual(orders.map(([shorter]) => shorter))
})
