/** The listeners of NOTIFY, by channel: the database listens to a channel as long as somebody does. */

export function createChannels(database: {
  /** Rejects where the database cannot listen: then nobody does. */
  listen(channel: string): Promise<unknown>
  unlisten(channel: string): Promise<unknown>
}) {
  const channels = new Map<string, Set<(payload: string) => void>>()
  return {
    names: () => [...channels.keys()],
    deliver(channel: string, payload: string): void {
      for (const listener of channels.get(channel) ?? []) listener(payload)
    },
    async listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>> {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(listener))
      const leave = () => {
        listeners.delete(listener)
        return listeners.size === 0 && channels.delete(channel)
      }
      try {
        await database.listen(channel)
      } catch (error) {
        leave()
        throw error
      }
      return async () => {
        if (leave()) await database.unlisten(channel)
      }
    },
    clear: () => channels.clear(),
  }
}
