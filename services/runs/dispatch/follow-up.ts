/** What follows from the ends of runs: it lets their callers go first, and is done together. */

const pauseMs = 20

interface FollowUp {
  /** Has the work done in a moment, once for all that ask meanwhile. */
  soon(): void
  cancel(): void
}

export function createFollowUp(work: () => void): FollowUp {
  let due: NodeJS.Timeout | undefined
  return {
    soon() {
      due ??= setTimeout(() => {
        due = undefined
        work()
      }, pauseMs)
    },
    cancel() {
      clearTimeout(due)
      due = undefined
    },
  }
}
