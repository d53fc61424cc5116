/**
 * The time limits of the platform, in milliseconds, and what must hold between them. They are in one place because each
 * is worth nothing alone: a call must end before whoever waits for it gives up, and a drain before the process ends.
 */

import { AppError } from './errors.ts'

export const deadlines = {
  /** Requests of drivers to their servers. */
  engine: {
    logConnectMs: 1_000,
    logCommitMs: 5_000,
    logAppendMs: 2_000,
    logLeaveMs: 500,
    /** Where the log is, and what it holds: brokers, offsets, producer ids. */
    logAskMs: 2_000,
    logHeartbeatMs: 1_500,
    /** How long a broker holds a fetch back while there is nothing, and a write until its followers have it. */
    logFetchWaitMs: 2_500,
    logBrokerWriteMs: 4_000,
    /** Any other request to a broker; without an answer by then its connection is closed. */
    logRequestMs: 5_000,
    logAdminMs: 10_000,
    /** Pending writes, when the log is closed. */
    logDrainMs: 10_000,
    vectorReadMs: 10_000,
    vectorWriteMs: 20_000,
    /** A connection of gRPC that is silent for this long is asked whether it still works, and given so long to answer. */
    vectorPingAfterMs: 5_000,
    vectorPingMs: 3_000,
    postgresConnectMs: 3_000,
    postgresStatementMs: 30_000,
    mirrorWriteMs: 60_000,
    registryReadMs: 5_000,
    pingMs: 2_000,
  },
  /** Engines in threads of this process. A stop waits no longer than it has left. */
  embedded: {
    openMs: 60_000,
    databaseOpenMs: 120_000,
    closeMs: 10_000,
    vectorsCloseMs: 15_000,
  },
  /** What a request waits for. */
  request: {
    pointsMs: 1_600,
    /** The beginning of an operation: to its own partition, then to another one. */
    auditMs: 700,
    auditElsewhereMs: 900,
    fireMs: 1_700,
    fireAnswerMs: 1_900,
    assignMs: 1_500,
    lagMs: 1_000,
    keyMs: 1_000,
    limitsMs: 1_500,
    /** A call of the identity provider. */
    identityMs: 5_000,
    healthMs: 1_500,
    /** What an operator looks at: the whole state, all groups. */
    observedMs: 10_000,
    searchPgMs: 5_000,
    /** The vector of a question, and those of all texts of an upsert. */
    embedQuestionMs: 10_000,
    embedTextsMs: 40_000,
    /** In each such time a large body, and any request without a caller, must bring some bytes. */
    bodyPaceMs: 5_000,
    /** A new connection that says nothing for so long is closed. */
    firstByteMs: 5_000,
    /** So long a connection that ends is read on, so that its caller sees the answer. */
    lingerMs: 5_000,
    /** A large answer waits for its turn, when those under way fill their budget. */
    answerTurnMs: 5_000,
    /** A reader that takes nothing of its answer for so long is cut off. */
    answerTakenMs: 30_000,
    /** Within this time a caller learns that the log is away. */
    awayMs: 2_000,
  },
  /** One call of a worker's handler. */
  handler: {
    vectorWriterMs: 30_000,
    /** Index writers that make vectors again: one request to the embedder. */
    remakeMs: 10_000,
    relationalWriterMs: 120_000,
    auditWriterMs: 90_000,
    /** Two requests to an embedding endpoint, with all their tries. */
    noteIndexerMs: 120_000,
    fleetEventsMs: 20_000,
    courierMs: 5_250,
  },
  /** A webhook, from connecting to the end of its answer. */
  webhookCallMs: 5_000,
  /** Parsing a changed YAML file of the operator, in a thread of its own. */
  yamlParseMs: 10_000,
  /** Publishing of workers. */
  publish: {
    outboxMs: 2_000,
    fleetEventsMs: 5_000,
  },
  /** Members of consumer groups. */
  session: {
    /** Without a heartbeat for this long a member loses its partitions; Kafka's own limits allow no less. */
    timeoutMs: 6_000,
    heartbeatMs: 1_250,
    /** A member that does not join again within this time when the group shares out is left out. */
    rebalanceMs: 10_000,
    /** A partition that moves: its calls go on for a while, are aborted, their outcomes committed; then the next has it. */
    handOverCallsMs: 500,
    handOverMs: 2_000,
  },
  /** The holder of a lease may act for this long after it was last renewed. */
  lease: {
    outboxMs: 15_000,
    switchMs: 15_000,
    pruneMs: 30_000,
    deadLettersMs: 30_000,
    rebuildMs: 30_000,
  },
  /** From SIGTERM on. Calls of a member go on for a while, are aborted, their outcomes committed; then it leaves. */
  stop: {
    callsMs: 2_000,
    abortedCallsMs: 500,
    lastCommitMs: 1_000,
    /** Workers have more where requests took less; engines close in the rest. */
    workersMs: 4_000,
    enginesMs: 1_500,
    /** What a worker that lets work go on writes down at its end. */
    lastWritesMs: 1_000,
    requestsMs: 3_000,
    resourcesMs: 4_000,
    /** Sends pending spans. */
    spansMs: 1_000,
    allMs: 9_500,
    promisedMs: 10_000,
  },
  /** After a connection went silent, writing and reading go on within this time. */
  silenceMs: 10_000,
}

export type Deadlines = typeof deadlines

/** `shorter` must be over before `longer` is; both as they are named in the message. */
type Order = [shorter: string, longer: string, of: (limits: Deadlines) => [shorter: number, longer: number]]

export const orders: readonly Order[] = [
  ['a write of points', 'a call of vector-writer', (d) => [d.engine.vectorWriteMs, d.handler.vectorWriterMs]],
  [
    'vectors made again',
    'a call of vector-writer',
    (d) => [2 * d.handler.remakeMs, d.handler.vectorWriterMs],
  ],
  ['a read of points', 'a write of points', (d) => [d.engine.vectorReadMs, d.engine.vectorWriteMs]],
  [
    'asking a silent connection to the vector engine',
    'the end of silence',
    (d) => [d.engine.vectorPingAfterMs + d.engine.vectorPingMs, d.silenceMs],
  ],
  [
    'a write of the mirror',
    'a call of relational-writer',
    (d) => [d.engine.mirrorWriteMs, d.handler.relationalWriterMs],
  ],
  [
    'connecting to Postgres',
    'a statement',
    (d) => [d.engine.postgresConnectMs, d.engine.postgresStatementMs],
  ],
  ['a statement', 'a write of the mirror', (d) => [d.engine.postgresStatementMs, d.engine.mirrorWriteMs]],
  ['an append', 'a call of audit-writer', (d) => [d.engine.logAppendMs, d.handler.auditWriterMs]],
  ['an append', 'a call of note-indexer', (d) => [d.engine.logAppendMs, d.handler.noteIndexerMs]],
  [
    'publishing deliveries',
    'a call for fleet events',
    (d) => [d.publish.fleetEventsMs, d.handler.fleetEventsMs],
  ],
  ['a webhook', 'a call of the courier', (d) => [d.webhookCallMs, d.handler.courierMs]],
  ['a publish of points', 'the answer that the log is away', (d) => [d.request.pointsMs, d.request.awayMs]],
  [
    'both tries of an audit event',
    'the answer that the log is away',
    (d) => [d.request.auditMs + d.request.auditElsewhereMs, d.request.awayMs],
  ],
  ['a publish of deliveries', 'the answer of a fire', (d) => [d.request.fireMs, d.request.fireAnswerMs]],
  [
    'the answer of a fire',
    'the answer that the log is away',
    (d) => [d.request.fireAnswerMs, d.request.awayMs],
  ],
  ['assigning a target', 'a publish of deliveries', (d) => [d.request.assignMs, d.request.fireMs]],
  [
    'a question about limits',
    'the answer that the log is away',
    (d) => [d.request.limitsMs, d.request.awayMs],
  ],
  ['connecting to the log', 'an append', (d) => [d.engine.logConnectMs, d.engine.logAppendMs]],
  ['reaching a broker', 'a question to the log', (d) => [d.engine.logConnectMs, d.engine.logAskMs]],
  ['a wait for records', 'a request to the log', (d) => [d.engine.logFetchWaitMs, d.engine.logRequestMs]],
  [
    'a write at its broker',
    'a request to the log',
    (d) => [d.engine.logBrokerWriteMs, d.engine.logRequestMs],
  ],
  ['a request to the log', 'a commit', (d) => [d.engine.logRequestMs, d.engine.logCommitMs]],
  [
    'a request without an answer, and the question who leads now',
    'the end of silence',
    (d) => [d.engine.logRequestMs + d.engine.logAskMs + d.engine.logConnectMs, d.silenceMs],
  ],
  [
    'two heartbeats without an answer, and their pauses',
    'a session',
    ({ engine, session }) => [2 * (engine.logHeartbeatMs + session.heartbeatMs), session.timeoutMs],
  ],
  ['a commit', 'a session', (d) => [d.engine.logCommitMs, d.session.timeoutMs]],
  [
    'the drain of a partition that moves',
    'its hand-over',
    ({ session, stop }) => [
      session.handOverCallsMs + stop.abortedCallsMs + stop.lastCommitMs,
      session.handOverMs,
    ],
  ],
  ['a hand-over', 'a session', (d) => [d.session.handOverMs, d.session.timeoutMs]],
  ['a session', 'a rebalance', (d) => [d.session.timeoutMs, d.session.rebalanceMs]],
  ['three sends of the outbox', 'its lease', (d) => [3 * d.publish.outboxMs, d.lease.outboxMs]],
  [
    'the drain of a member',
    'the stop of the workers',
    ({ stop, engine }) => [
      stop.callsMs + stop.abortedCallsMs + stop.lastCommitMs + engine.logLeaveMs,
      stop.workersMs,
    ],
  ],
  [
    'the stop of requests, workers and engines, and the last spans',
    'the whole stop',
    ({ stop }) => [stop.requestsMs + stop.workersMs + stop.enginesMs + stop.spansMs, stop.allMs],
  ],
  [
    'the last writes of a worker',
    'the stop of the workers',
    ({ stop }) => [stop.lastWritesMs, stop.workersMs],
  ],
  ['the stop of resources', 'the whole stop', ({ stop }) => [stop.resourcesMs, stop.allMs]],
  ['the whole stop', 'the promised 10 s', ({ stop }) => [stop.allMs, stop.promisedMs]],
]

/** Throws AppError `invalid_configuration` that names every limit which would not be over in time. */
export function checkDeadlines(limits: Deadlines = deadlines): void {
  const faults = orders.flatMap(([shorter, longer, of]) => {
    const [one, other] = of(limits)
    return one <= other ? [] : [`${shorter} (${one} ms) must be over before ${longer} (${other} ms)`]
  })
  if (faults.length > 0) throw new AppError('invalid_configuration', `Time limits: ${faults.join('; ')}.`)
}
