/** Waits for a condition instead of for a time. */

/**
 * Polls until `check` returns a truthy value, and returns it; throws with `what` after `timeoutMs`. The limit only ends a
 * hang: it is never the time in which something must have happened.
 */
export async function eventually<T>(
  what: string,
  check: () => T | Promise<T>,
  timeoutMs = 60_000,
): Promise<NonNullable<T>> {
  const end = Date.now() + timeoutMs
  let last: unknown
  while (Date.now() < end) {
    try {
      const value = await check()
      if (value) return value as NonNullable<T>
      last = value
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not within ${timeoutMs} ms: ${what} (last: ${String(last)})`)
}
