/** Who has each writer name now. In memory alone: no holder outlives the process. */

/** For appends of no writer name; everyone may use it. */
export const nobody = 0

export function createHolders() {
  const byName = new Map<string, number>()
  const current = new Set([nobody])
  let last = nobody
  return {
    /** Gives the name to a new holder and returns its number; the earlier one has it no more. */
    takeOver(name: string): number {
      current.delete(byName.get(name) ?? -1)
      byName.set(name, ++last)
      current.add(last)
      return last
    },
    isCurrent: (holder: number): boolean => current.has(holder),
  }
}
