/** The limits of the consumer runtime, so that they can be read and weighed together; those of memory are budgets. */

/** Nothing is dispatched further than this many offsets beyond the committed watermark. */
export const windowOffsets = 16_384
/** What a partition's window takes: two bitmaps of twice so many bits. */
export const windowBytes = (2 * 2 * windowOffsets) / 8
/** Lanes of a partition that retry at once; their attempts travel in the commit's metadata. */
export const retryingLanesMax = 256
/** With more lanes than these retrying at once, a commit keeps attempts up to 1,023 only, and not the retries used. */
export const exactAttemptsMax = 150
/** Records read back below the position that a handler is shown. */
export const settledBeforeRecordsMax = 4_096
/** Kafka's limit for the metadata of one commit, in bytes. */
export const metadataBytesMax = 4_096
/** Event ids that are remembered per partition to drop repeats, where memory allows. */
export const ringIdsMax = 65_536
/** So many always are. */
export const ringIdsMin = 1_024
/**
 * Part of a partition's share for records that are fetched and not yet taken; the rest is for records at work. In lanes that
 * rest bounds how much may wait behind a head before other lanes have to wait as well: so it is most of the share there.
 */
export const bufferPart = { batches: 1 / 2, lanes: 1 / 4 } as const
/** Records fetched and not yet taken, per partition, unless a group wants fewer. */
export const bufferedRecordsMax = 2_048
/** Records of a partition in its lane while it has but one. */
export const oneLaneAheadMax = 64
/** A call that runs for longer may hang: then records that wait in lanes are worth a copy. */
export const longCallMs = 100
/** What a record costs on top of its key and value: its object, headers, bookkeeping. */
export const recordOverheadBytes = 400
/**
 * While work goes on, partitions commit together this often. Records settled three times as long ago have to be committed. In
 * lanes, whose calls go to others who see what a kill repeats, and where somebody waits, the first commit goes at once.
 */
export const commitEveryMs = { hurried: 20, otherwise: 100 } as const
/** What `beforeCommit` has made known is not worked on again by anyone: it is committed at the next of these times. */
export const knownCommitEveryMs = 500
/** A group on a compacted topic that made no progress for this long may have missed tombstones (kept 30 days). */
export const staleAfterMs = 25 * 86_400_000
/** A partition without work writes its position again after this long, so that an idle partition is not taken for a stale one. */
export const refreshAfterMs = 6 * 3_600_000
/** Longest wait between two probes of an engine that is away. */
export const probeWaitMsMax = 5_000
/** Takeovers without progress after which records run one at a time. */
export const killsMax = 3
/** Longest single retry wait, ms; also what setTimeout can hold with room to spare. */
export const retryWaitMsMax = 86_400_000
