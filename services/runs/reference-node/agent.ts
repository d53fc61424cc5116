/** What an agent behind a node is: it is given a message and says something. */

export interface Message {
  /** The text parts. */
  texts: readonly string[]
  userId: string
  sessionId: string
  customMetadata: Readonly<Record<string, unknown>>
}

/** A text as a whole, or a piece of the whole text that comes later. */
export interface Said {
  text: string
  partial?: boolean
}

export interface NodeAgent {
  /** One sentence, for the list of apps. */
  readonly description: string
  /** Ends when the signal aborts; what it throws is shown to the caller as the agent's fault. */
  answer(message: Message, signal: AbortSignal): AsyncIterable<Said>
}
