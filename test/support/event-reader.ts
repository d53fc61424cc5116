/** Reads an answer of server-sent events, as a browser does. */

export interface ReceivedEvent {
  event: string
  id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
  data: any
  at: number
}

export interface EventReader {
  status: number
  headers: Headers
  events: ReceivedEvent[]
  /** As a browser keeps it, heartbeats included. */
  lastId(): string | undefined
  comments: string[]
  /** Resolves when the answer is over: true when the server ended it in order. */
  over: Promise<boolean>
  /** Cuts the connection. */
  cut(): void
}

export async function readEvents(
  url: string,
  { token, lastEventId, accept }: { token: string; lastEventId?: string | undefined; accept?: string },
): Promise<EventReader> {
  const cut = new AbortController()
  const answer = await fetch(url, {
    signal: cut.signal,
    headers: {
      authorization: `Bearer ${token}`,
      ...(accept === undefined ? {} : { accept }),
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
  })
  const events: ReceivedEvent[] = []
  const comments: string[] = []
  let last: string | undefined
  function take(block: string): void {
    const fields = new Map<string, string>()
    for (const line of block.split('\n')) {
      if (line.startsWith(':')) comments.push(line.slice(1).trim())
      else fields.set(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2))
    }
    last = fields.get('id') ?? last
    const data = fields.get('data')
    if (data === undefined) return
    events.push({
      event: fields.get('event') ?? 'message',
      id: fields.get('id'),
      data: JSON.parse(data),
      at: performance.now(),
    })
  }
  async function read(): Promise<boolean> {
    let rest = ''
    const decoder = new TextDecoder()
    try {
      for await (const chunk of answer.body!) {
        const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
        rest = blocks.pop()!
        for (const block of blocks) take(block)
      }
      return true
    } catch {
      return false
    }
  }
  return {
    status: answer.status,
    headers: answer.headers,
    events,
    comments,
    lastId: () => last,
    over: read(),
    cut: () => cut.abort(),
  }
}
