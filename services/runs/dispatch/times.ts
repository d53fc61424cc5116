/** The limits of a dispatcher, times in milliseconds. Tests use smaller ones. */

export interface RunTimes {
  /** A dispatcher may work on a run for this long after it last renewed its lease. */
  leaseMs: number
  renewMs: number
  /** A dispatcher probes nodes and looks for runs for the first time so long after its start. */
  firstMs: number
  /** How often it looks for what nobody woke it for: while there are runs, and at rest. */
  sweepMs: number
  restMs: number
  /** A run waits this long while its node is away, or when its turn has come and there is a place. */
  startMs: number
  /** A run, whatever its node allows. */
  runMs: number
  synthesisMs: number
  /** After a node could not be reached. */
  retryMs: number
  probeMs: number
  probeRestMs: number
  /** Runs of one dispatcher at once. */
  runsMax: number
}

export const runTimes: RunTimes = {
  leaseMs: 30_000,
  renewMs: 10_000,
  firstMs: 0,
  sweepMs: 1_000,
  restMs: 1_000,
  startMs: 30_000,
  runMs: 300_000,
  synthesisMs: 60_000,
  retryMs: 1_000,
  probeMs: 5_000,
  probeRestMs: 15_000,
  runsMax: 1_000,
}
