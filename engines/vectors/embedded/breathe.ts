/** Lets waiting messages, such as searches, through between two slices of long work in the same thread. */

export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
