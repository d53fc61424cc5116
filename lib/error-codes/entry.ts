/** The entry of an error code. */

export interface ErrorEntry {
  /** HTTP status; `alsoStatus` holds the others that the code may come with, and when. */
  status: number
  alsoStatus?: Readonly<Record<number, string>>
  /** Title of the problem document: the same for every fault of this code. */
  title: string
  /** A sentence, where the title leaves something open. */
  meaning?: string
  /** True when the answer has `retryAfter`. */
  waits?: boolean
  /** What the caller should do. */
  action: string
}

/** The answer names the seconds after which trying again helps. */
export const later = { waits: true, action: 'Wait for `retryAfter` seconds and send it again.' } as const
