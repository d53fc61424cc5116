/**
 * The bounds of memory and of connections, in bytes where no other unit is named. They are in one place because only
 * their sum says how much memory a process needs: a test compares it with the limits of the Helm chart.
 */

const kibibyte = 1024
const mebibyte = 1024 * kibibyte

export const budgets = {
  /** Interfaces of HTTP. */
  http: {
    /** Address and headers of one request. */
    headerBytesMax: 16 * kibibyte,
    /** The same at the vector gateway, where ids of points may travel in the address. */
    gatewayHeaderBytesMax: 32 * kibibyte,
    /** Body of one request on a route that asks for no credential and sets no limit of its own. */
    strangerBodyBytesMax: 16 * kibibyte,
    /** Body of one request on a route that asks for a credential and sets no limit of its own. */
    callerBodyBytesMax: mebibyte,
    /** Per process: unfinished headers and bodies of requests that have no caller yet. */
    strangerBytes: 32 * mebibyte,
    /** An unfinished header or body without a caller must bring so many bytes in each `deadlines.request.bodyPaceMs`. */
    strangerPaceBytes: kibibyte,
    /** A refused body of up to this many announced bytes is read and dropped, and the connection stays open. */
    droppedBytesMax: 64 * kibibyte,
    /** A closing connection reads and drops this many bytes behind the answer, so that the caller sees it. */
    lingerBytesMax: 64 * mebibyte,
    /** Open connections of a process, over all of its interfaces. */
    connectionsMax: 10_000,
    /** What an open connection takes: socket, parser, and a header that may arrive between two looks. */
    connectionBytes: 16 * kibibyte,
    /** Open connections of one address; a trusted proxy has no such bound. */
    addressConnectionsMax: 2_000,
  },
  /** Upserts at the vector gateway. */
  uploads: {
    /** Body of one upsert. */
    bodyBytesMax: 64 * mebibyte,
    /** Per caller: bodies that have arrived and are not parsed. */
    callerBytes: 128 * mebibyte,
    /** Per process: the same of all callers. They take as much again while they are parsed. */
    processBytes: 512 * mebibyte,
  },
  /** Bodies that are too large to be parsed on the event loop and wait for a thread. */
  parsing: {
    /** Per interface: bodies of JSON. */
    jsonWaitingBytes: 32 * mebibyte,
    /** Per process: upserts, which the uploads count, too. */
    upsertWaitingBytes: 256 * mebibyte,
  },
  /** Large answers: pages, searches, exports. */
  answers: {
    /** Per process: those under way, each by its pieces that are read and not yet taken. */
    processBytes: 64 * mebibyte,
    /** Per caller: the same. */
    callerBytes: 16 * mebibyte,
  },
  /** Answers that go on: events of runs, of the hub and of the log. */
  streams: {
    /** Per stream: events that its reader has not taken. */
    bufferBytes: 256 * kibibyte,
    /** Per process: texts of topic records that several readers may want. */
    textBytes: 8 * mebibyte,
    /** Open streams of one caller at an interface. */
    callerMax: 10,
    /** Open streams of all callers at an interface. */
    interfaceMax: 500,
  },
  /** The event log, as a process uses it. */
  log: {
    /** Per process: records that wait to be written. */
    waitingBytes: 256 * mebibyte,
    /** Per partition: the same, of the embedded log. */
    partitionWaitingBytes: 64 * mebibyte,
  },
  /** Members of consumer groups. */
  consumers: {
    /** Per group and process: records that were read and are not settled, and remembered ids. */
    groupBytes: 128 * mebibyte,
    /** Per process: ids of events, to drop repeats; a part of the above, and more where partitions are very many. */
    rememberedBytes: 64 * mebibyte,
    /** Per partition: its share is never more than this, */
    partitionBytesMax: 16 * mebibyte,
    /** and never less than this. */
    partitionBytesMin: 256 * kibibyte,
  },
  /** Runs of agents. */
  runs: {
    /** Per process: events that a run-dispatcher has stored and not yet published. */
    newsBytes: 16 * mebibyte,
    /** Per stream: news that wait for a reader, who reads the rows beyond that. */
    followedBytes: 256 * kibibyte,
  },
  /** Passwords of people. */
  passwords: {
    /** Per check of a password. */
    checkBytes: 128 * mebibyte,
    /** Checks at once, per process. */
    atOnce: 2,
  },
} as const

const { http, uploads, parsing, answers, streams, log, consumers, runs, passwords } = budgets

/** Every process answers HTTP, if only probes, and writes to the log. */
const everyProcess = {
  strangers: http.strangerBytes,
  connections: http.connectionsMax * http.connectionBytes,
  'records to write': log.waitingBytes,
}
const groupOfRecords = { 'records read': consumers.groupBytes }
const openStreams = { streams: streams.interfaceMax * streams.bufferBytes }
const anyInterface = { 'bodies to parse': parsing.jsonWaitingBytes, answers: answers.processBytes }

/**
 * What each service may hold at most in a process of its own on servers, beyond what it takes at rest, in bytes by what
 * they are for. A new budget is a line here, and the test says whether the pod still has room for it.
 */
export const heldBytes: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'vector-gateway': {
    ...everyProcess,
    ...anyInterface,
    uploads: uploads.processBytes,
    'uploads, parsed': uploads.processBytes,
  },
  'main-api': {
    ...everyProcess,
    ...anyInterface,
    ...openStreams,
    passwords: passwords.atOnce * passwords.checkBytes,
    'texts of records': streams.textBytes,
  },
  hub: { ...everyProcess, ...anyInterface, ...openStreams },
  'run-gateway': {
    ...everyProcess,
    ...anyInterface,
    ...openStreams,
    'news for streams': streams.interfaceMax * runs.followedBytes,
  },
  'vector-writer': { ...everyProcess, ...groupOfRecords },
  'relational-writer': { ...everyProcess, ...groupOfRecords },
  'audit-writer': { ...everyProcess, ...groupOfRecords },
  'note-indexer': { ...everyProcess, ...groupOfRecords },
  'outbox-publisher': everyProcess,
  'webhook-relay': { ...everyProcess, ...groupOfRecords, ...anyInterface },
  'webhook-courier': { ...everyProcess, ...groupOfRecords },
  'run-dispatcher': { ...everyProcess, news: runs.newsBytes },
}
