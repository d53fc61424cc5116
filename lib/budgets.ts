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
    /** Of a refused body: up to so many announced bytes are read and dropped, and the connection stays open. */
    droppedBytesMax: 64 * kibibyte,
    /** Of a connection that closes: so many bytes are read and dropped behind the answer, so that the caller sees it. */
    lingerBytesMax: 64 * mebibyte,
    /** Open connections of a process, over all of its interfaces. */
    connectionsMax: 10_000,
    /** Open connections of one address; a trusted proxy has no such bound. */
    addressConnectionsMax: 2_000,
  },
} as const
