/** Lets other work of the machine go first. */

import { setPriority } from 'node:os'

/** On Unix about a third of the share of a busy core that others have. */
const priority = 5

/** Lowers the priority of this process, or of this thread alone, which only Linux can; elsewhere a thread stays as it is. */
export function lowerPriority(who: 'process' | 'thread'): void {
  if (who === 'thread' && process.platform !== 'linux') return
  try {
    setPriority(priority)
  } catch {
    // Not allowed everywhere, and only a courtesy.
  }
}
