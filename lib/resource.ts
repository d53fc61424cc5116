/**
 * Closes resources in reverse order, also after a half-failed start.
 *
 * AsyncDisposableStack of the language reports all faults as one nested error without the parts' names, and a second
 * call does not wait for the first.
 */

export interface Closeable {
  close(): Promise<void>
}

export interface Scope extends Closeable {
  /** Remembers how to close a resource that was just opened, and hands it on. */
  add<T extends Closeable>(name: string, resource: T): T
}

/**
 * A scope closes its resources, last first. Every close is tried; a fault goes to `onError` and is not thrown.
 */
export function createScope(onError: (name: string, error: unknown) => void = () => {}): Scope {
  const opened: { name: string; resource: Closeable }[] = []
  let closing: Promise<void> | undefined
  async function closeAll(): Promise<void> {
    for (let entry = opened.pop(); entry; entry = opened.pop()) {
      try {
        await entry.resource.close()
      } catch (error) {
        onError(entry.name, error)
      }
    }
  }
  return {
    add(name, resource) {
      opened.push({ name, resource })
      return resource
    },
    close() {
      closing ??= closeAll()
      return closing
    },
  }
}
