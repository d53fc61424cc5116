/** Every topic of the platform, who writes it and who reads it. docs/topics.md is made from this file. */

import { deadLettersOf } from './dead-letters.ts'
import { promises } from './promises.ts'
import { defineTopic, type Topic } from './topic.ts'

const day = 86_400_000

export const vectorsCommands = defineTopic({
  name: 'vectors.commands',
  purpose: 'one point: upsert, or delete as a null value; the system of record of every index',
  keyedBy: 'collection and point id',
  // A collection's stored name has no slash, so the first slash ends it.
  key: (point: { collection: string; id: string }) => `${point.collection}/${point.id}`,
  schema: 'vector-upsert',
  public: promises.vectorsCommands,
  cleanup: 'compact',
  deadLetters: true,
  writers: ['vector-gateway', 'audit-writer', 'note-indexer', 'vector-writer'],
  readers: [
    { service: 'vector-writer', group: 'vector-writer', mode: 'batch' },
    { service: 'relational-writer', group: 'relational-writer', mode: 'batch' },
    { service: 'relational-writer', tail: 'end' },
  ],
})

export const vectorsCollections = defineTopic({
  name: 'vectors.collections',
  purpose: "collections of one's own, made and deleted",
  keyedBy: 'making of a collection',
  key: (of: { name: string; making: string }) => `${of.name}~${of.making}`,
  schema: 'collection-change',
  public: promises.vectorsCollections,
  partitions: 1,
  cleanup: 'compact',
  writers: ['outbox-publisher'],
  readers: [
    { service: 'vector-gateway', tail: 'end' },
    { service: 'vector-writer', tail: 'end' },
    { service: 'relational-writer', tail: 'end' },
  ],
})

/** Takes a record key of vectors.commands apart; null when it is none. */
export function parsePointKey(key: string): { collection: string; id: string } | null {
  const slash = key.indexOf('/')
  return slash < 1 ? null : { collection: key.slice(0, slash), id: key.slice(slash + 1) }
}

export const vectorsProgress = defineTopic({
  name: 'vectors.progress',
  purpose: 'applied through which offset, and how many records failed so far',
  keyedBy: 'index, generation and partition',
  key: (of: { index: string; generation: number; partition: number }) =>
    `${of.index}/${of.generation}/${of.partition}`,
  schema: 'vectors-progress',
  cleanup: 'compact',
  writers: ['vector-writer', 'relational-writer'],
  readers: [
    { service: 'vector-gateway', tail: 'beginning' },
    { service: 'vector-writer', tail: 'beginning' },
    { service: 'relational-writer', tail: 'beginning' },
  ],
})

/** What a key of vectors.progress names; null for a key of another form. */
export function parseProgressKey(
  key: string,
): { index: string; generation: number; partition: number } | null {
  const found = /^([a-z]+)\/(\d{1,9})\/(\d{1,9})$/.exec(key)
  return found && { index: found[1]!, generation: Number(found[2]), partition: Number(found[3]) }
}

export const auditEvents = defineTopic({
  name: 'audit.events',
  purpose: 'handshakes and vector operations: begun, ended; summaries of refused floods',
  keyedBy: 'agent',
  key: (agentId: string) => agentId,
  schema: 'audit-event',
  public: promises.auditEvents,
  cleanup: 'delete',
  retentionMs: 90 * day,
  deadLetters: true,
  writers: ['vector-gateway'],
  readers: [{ service: 'audit-writer', group: 'audit-writer', mode: 'batch' }],
})

export const agentsChanges = defineTopic({
  name: 'agents.changes',
  purpose: 'provisioned, rotated, deleted, updated, agent keys revoked: a signal to drop the cached agent',
  keyedBy: 'agent',
  key: (agentId: string) => agentId,
  schema: 'agent-change',
  cleanup: 'compact',
  writers: ['outbox-publisher'],
  readers: [
    { service: 'vector-gateway', tail: 'end' },
    { service: 'main-api', tail: 'end' },
    { service: 'hub', tail: 'end' },
    { service: 'run-gateway', tail: 'end' },
  ],
})

export const peopleChanges = defineTopic({
  name: 'people.changes',
  purpose:
    'added, another role or password, signed out, removed: a signal to drop what is cached of the person',
  keyedBy: 'person',
  key: (uid: string) => uid,
  schema: 'person-change',
  cleanup: 'compact',
  writers: ['outbox-publisher'],
  readers: [
    { service: 'main-api', tail: 'end' },
    { service: 'hub', tail: 'end' },
    { service: 'run-gateway', tail: 'end' },
  ],
})

export const adminAudit = defineTopic({
  name: 'admin.audit',
  purpose: 'who did what to the platform, by the main API or the command line',
  keyedBy: 'actor',
  key: (actorId: string) => actorId,
  schema: 'admin-action',
  cleanup: 'delete',
  retentionMs: 365 * day,
  writers: ['outbox-publisher'],
  readers: [],
})

export const fleetEvents = defineTopic({
  name: 'fleet.events',
  purpose: 'lifecycle events of tasks and agents: the relay fires each',
  keyedBy: 'agent',
  key: (agentId: string) => agentId,
  schema: 'fleet-event',
  public: promises.fleetEvents,
  cleanup: 'delete',
  retentionMs: 7 * day,
  deadLetters: true,
  writers: ['outbox-publisher'],
  readers: [{ service: 'webhook-relay', group: 'webhook-relay', mode: 'batch' }],
})

export const hubRecords = defineTopic({
  name: 'hub.records',
  purpose: 'the newest state of each note and goal',
  keyedBy: 'note or goal',
  key: ({ kind, id }: { kind: 'note' | 'goal'; id: number }) => `${kind}/${id}`,
  schema: 'hub-record',
  public: promises.hubRecords,
  cleanup: 'compact',
  deadLetters: true,
  writers: ['outbox-publisher'],
  readers: [
    { service: 'note-indexer', group: 'note-indexer', mode: 'batch' },
    { service: 'hub', tail: 'end' },
    { service: 'main-api', tail: 'end' },
  ],
})

/** Its partitions are owned by targets (services/webhooks/targets/assignment.ts), never chosen by the key's hash. */
export const webhooksDeliveries = defineTopic({
  name: 'webhooks.deliveries',
  purpose: 'one event for one target; kept until it is delivered or parked',
  keyedBy: 'target',
  key: (target: string) => target,
  schema: 'webhook-delivery',
  partitions: 64,
  owned: true,
  cleanup: 'delete',
  deadLetters: true,
  writers: ['webhook-relay'],
  readers: [{ service: 'webhook-courier', group: 'webhook-courier', mode: 'lanes' }],
})

export const webhooksAttempts = defineTopic({
  name: 'webhooks.attempts',
  purpose: 'one attempt: sequence, outcome, status, milliseconds, breaker, next try',
  keyedBy: 'target',
  key: (target: string) => target,
  schema: 'webhook-attempt',
  public: promises.webhooksAttempts,
  cleanup: 'delete',
  retentionMs: 7 * day,
  writers: ['webhook-courier'],
  readers: [
    { service: 'webhook-relay', tail: 'end' },
    { service: 'main-api', tail: 'end' },
  ],
})

export const runsCommands = defineTopic({
  name: 'runs.commands',
  purpose: 'a run waits for its node: wakes dispatchers of earlier versions; goes with the next release',
  keyedBy: 'agent (slug)',
  key: (slug: string) => slug,
  schema: 'run-command',
  cleanup: 'delete',
  retentionMs: 7 * day,
  deadLetters: true,
  writers: ['outbox-publisher'],
  readers: [],
})

export const runsControl = defineTopic({
  name: 'runs.control',
  purpose: 'a run is to be canceled: wakes dispatchers of earlier versions; goes with the next release',
  keyedBy: 'agent (slug)',
  key: (slug: string) => slug,
  schema: 'run-command',
  cleanup: 'delete',
  retentionMs: day,
  writers: ['outbox-publisher'],
  readers: [],
})

export const runsEvents = defineTopic({
  name: 'runs.events',
  purpose: 'events of runs, partial ones as well, and changes of their status',
  keyedBy: 'agent (slug)',
  key: (slug: string) => slug,
  schema: 'run-event',
  public: promises.runsEvents,
  cleanup: 'delete',
  retentionMs: 7 * day,
  writers: ['run-dispatcher', 'outbox-publisher'],
  readers: [
    { service: 'run-gateway', tail: 'end' },
    { service: 'main-api', tail: 'end' },
  ],
})

const main = [
  vectorsCommands,
  vectorsProgress,
  auditEvents,
  vectorsCollections,
  agentsChanges,
  peopleChanges,
  adminAudit,
  fleetEvents,
  hubRecords,
  webhooksDeliveries,
  webhooksAttempts,
  runsCommands,
  runsControl,
  runsEvents,
] as const

/** Dead-letter topics included, in the order of creation. */
export const catalog: readonly Topic[] = main.flatMap((topic: Topic) =>
  topic.deadLetters ? [topic, deadLettersOf(topic)] : [topic],
)

export const topicByName = (name: string): Topic | undefined => catalog.find((topic) => topic.name === name)
