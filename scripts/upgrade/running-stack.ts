/** The handle of a running platform for code that fills it for a fixture. */

export interface RunningStack {
  home: string
  vectorUrl: string
  webhookUrl: string
  command<T>(...args: string[]): Promise<T>
  /** Puts a record that nobody can read into a topic; only where the log lets others write. */
  appendJunk?: (topic: string, key: string) => Promise<void>
}
